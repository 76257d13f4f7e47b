import BLEEmulation
import BLEHost
import BLEPacketLog
import BLEReplay
import BLEStack
import BLEWire
import Glibc
import HarnessKit

/// Packets from a host to an emulated controller, with a sensor in range that pairs.
///
/// In the first byte of each packet, bits 0 and 1 are the H4 type, and bits 4 to 7 let time pass.
func fuzzController(_ input: Span<UInt8>) {
  guard !input.isEmpty else { return }
  let protection = PeripheralProtection(input[0] & 1 == 0 ? .encrypted : .authenticated)
  let sensor = EmulatedSensor(StrapModel())
  let security = PeripheralSecurity(
    protection, of: sensor.advertisement?.address ?? .any, makeKeyPair: nil)
  let controller = VirtualController(
    .init(commandSet: input[0] & 2 == 0 ? .legacy : .extended),
    peripherals: [SecuredPeripheral(sensor, protection.level, security)],
    air: VirtualAir.Configuration(pace: input[0] & 4 == 0 ? .immediate : .air))
  var now = MonotonicTime(nanoseconds: 1_000_000_000)
  let steps: [Int64] = [0, 1, 10, 100, 1_000, 8_000, 31_000, 60_000]
  forEachPacket(input.extracting(1...)) { kind, body in
    let packet = [[UInt8]([0x01, 0x02, 0x03, 0x05])[Int(kind & 3)]] + array(body)
    controller.receive(packet.span, now: now)
    now = now.advanced(by: .milliseconds(steps[Int(kind >> 4 & 7)]))
    controller.advance(to: now)
    controller.drain { answer in
      // Complete packets, as a host would read them.
      var framer = H4Framer(from: .controllerToHost)
      var packets = 0
      framer.receive(answer) { _ in packets += 1 }
      precondition(packets == 1 && framer.garbage == 0, "no packet")
    }
    if let deadline = controller.deadline { precondition(deadline > now, "time stands still") }
  }
}

/// A log that is replayed as a controller: it drives our hosts, whose packets are compared with those in the
/// log.
func fuzzReplay(_ input: Span<UInt8>) {
  guard let file = tmpfile() else { fatalError("no temporary file") }
  defer { fclose(file) }
  var writer = PacketLogWriter(.btsnoop(.h4))
  var octets: [UInt8] = []
  writer.start(into: &octets)
  forEachRecord(input) { writer.append($0, to: &octets) }
  writer.finish(into: &octets)
  let written = octets.withUnsafeBytes { fwrite($0.baseAddress, 1, $0.count, file) }
  precondition(written == octets.count && fflush(file) == 0)
  guard let log = try? ReplayLog.read("/proc/self/fd/\(fileno(file))") else { return }
  for link in [nil, 1] as [Int?] {
    do throws(HostError) {
      var player = try LogPlayer(log, link: link)
      let count = player.count
      while player.upcoming != nil { player.step { _, value, _ in precondition(value.value.count < 65_536) } }
      player.finish()
      precondition(player.findings.played == count)
    } catch {
      precondition(link != nil, "a log that cannot be played")
    }
  }
}
