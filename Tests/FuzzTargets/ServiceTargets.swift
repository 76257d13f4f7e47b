import BLELinux
import BLEWire
import Daemon
import Fleet

/// The daemon's configuration file. Either it is accepted, or each error contains a line number of the file.
func fuzzConfiguration(_ input: Span<UInt8>) {
  let octets = array(input)
  let lines = 1 + octets.count { $0 == UInt8(ascii: "\n") }
  do throws(DaemonConfiguration.Invalid) {
    let configuration = try DaemonConfiguration(octets, path: "ringtap.json") { _ in "secret" }
    precondition(!configuration.devices.isEmpty && !configuration.directory.isEmpty)
    for device in configuration.devices {
      precondition(device.name != "." && device.name != ".." && !device.name.utf8.contains(UInt8(ascii: "/")))
    }
  } catch {
    precondition(!error.problems.isEmpty)
    // Text quoted from the file is made printable when it is printed.
    for problem in error.problems { precondition((1...lines).contains(problem.line), "no such line") }
  }
}

private let collectorFolder = FuzzFolder("collector")

/// Topics of two publishers, and topics that belong to none.
private let topics = [
  "fleet/a/1/ppg", "fleet/a/1/end", "fleet/a/status", "fleet/b/1/ppg", "fleet/b/1/accelerometer",
  "fleet/b/2/ppg",
  "fleet/b/1/end", "fleet/b/status", "fleet/a/receipt", "fleet/a/../ppg", "fleet/a/1/..", "fleet//1/ppg",
  "fleet/a/1/session", "other/a/1/ppg", "fleet/a/1/collect", "fleet",
]

/// Messages of publishers to a collector. In a packet's first byte, bits 0 to 3 select the topic; bit 7 lets
/// a second pass. Counted rows must be in files, even if the collector is restarted on them.
func fuzzCollector(_ input: Span<UInt8>) {
  collectorFolder.empty()
  var collector = Collector(collectorFolder.path, prefix: "fleet", name: "c")
  var now = MonotonicTime(nanoseconds: 1)
  forEachPacket(input) { kind, payload in
    do throws(CollectProblem) { try collector.take(topics[Int(kind & 15)], payload, now) } catch {
      fatalError("\(error)")
    }
    if kind & 0x80 != 0 { now = now.advanced(by: .seconds(1)) }
    for receipt in collector.receipts(now) { precondition(checkJSON(receipt.octets) == 1) }
  }
  do throws(CollectProblem) { try collector.sync() } catch { fatalError("\(error)") }
  let report = collector.report
  if let refusal = report.refusals.last { checkText(Array(refusal.utf8)) }
  precondition(report.refusals.entries.reduce(report.refusals.forgotten) { $0 + $1.count } == report.refused)
  for session in report.sessions {
    for table in session.tables {
      let path = "\(collectorFolder.path)/\(session.publisher)/\(session.session)/\(table.name).csv"
      guard let octets = try? Files.octets(of: path, limit: 1 << 24) else { fatalError("no file \(path)") }
      precondition(octets.last == UInt8(ascii: "\n"))
      precondition(octets.count { $0 == UInt8(ascii: "\n") } == table.rows + 1, "rows that are not there")
      precondition(table.rows == table.received && table.missing >= 0)
    }
  }
}

private let publisherFolder = FuzzFolder("publisher")
private let table = Array("time_ns,value\n1,7\n2,14\n3,21\n4,28\n5,35\n".utf8)

/// Messages of a broker and a collector to a publisher of five rows. Packets with a first byte of 0 that
/// precede all others are the `publish.json` of an earlier run. In the others, bits 0 and 1 select a
/// collector's receipt; the broker's acknowledgement of the oldest message, with its reason in the next byte;
/// a new connection; the end. Bits 2 and 3 are seconds that pass.
func fuzzPublisher(_ input: Span<UInt8>) {
  publisherFolder.empty()
  publisherFolder.write(table.span, "ppg.csv")
  var now = MonotonicTime(nanoseconds: 1)
  var publisher: Publisher?
  var isFirst = true
  var (oldest, newest) = (1, 0)
  forEachPacket(input) { kind, payload in
    if publisher == nil, kind == 0 {
      publisherFolder.write(payload, "publish.json")
      isFirst = false
    }
    do throws(PublishProblem) {
      var current: Publisher
      if let publisher {
        current = publisher
      } else {
        current = try Publisher(
          publisherFolder.path, prefix: "fleet", name: "p", backlogByteCount: 1 << 20, now: now)
        current.connected(now)
      }
      switch kind & 3 {
      case 0: try current.receive(payload, now)
      case 1:
        current.acknowledged(oldest, reason: payload.isEmpty ? 0 : Int(payload[0]), now)
        oldest = min(oldest + 1, newest + 1)
      case 2: current.connected(now)
      default: current.end(now)
      }
      now = now.advanced(by: .seconds(Int64(kind >> 2 & 3)))
      try current.look(now)
      var messages = 0
      while let outgoing = try current.next(now) {
        newest += 1
        messages += 1
        precondition(messages < 100, "messages without end")
        precondition(outgoing.topic.hasPrefix("fleet/p/") && !outgoing.octets.isEmpty)
        current.left(newest, outgoing)
      }
      // Figures that an earlier run reported are not counted again.
      precondition(!isFirst || (0...5).contains(current.report.acknowledged))
      precondition(!isFirst || (0...current.report.acknowledged).contains(current.report.confirmed))
      publisher = current
    } catch { checkText(Array("\(error)".utf8)) }
  }
}
