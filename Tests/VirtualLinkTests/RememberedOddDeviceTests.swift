import BLEWire
import BLEEmulation
import BLEHost
import BLELinux
import BLESensors
import BLEStack
import SensorSessions
import TestKit
import TestPeer
import Testing

/// One program learns the oddities of a device, and the next program remembers them. In virtual time.
@Suite(.timeLimit(.minutes(1))) struct RememberedOddDeviceTests {
  private static let start: Int64 = 1_700_000_000_000_000_000

  private struct Run {
    var rates: [UInt16] = []
    var facts = SensorFacts()
    var failure: HostError?
    var links = 0
    var remarks: [String] = []
    var opcodes: [UInt8] = []
    /// Time from the connect to the last value.
    var length = Duration.zero
  }

  /// Runs one program: connects, streams until five values have arrived and the facts are known, and
  /// remembers.
  private func run(
    _ devices: KnownDevices?, after days: Int64 = 0, scans: Bool = false,
    _ make: @escaping @Sendable () -> OddDevice
  ) async throws -> Run {
    let time = ReceiveTime(nanoseconds: Self.start + days * 86_400_000_000_000)
    let link = try await VirtualLink.open(clock: .virtual(from: time)) { [make()] }
    let adapter = link.adapter
    if let devices { await adapter.add(DeviceJournal(devices) { Issue.record("\($0)") }) }
    var run = try await withTaskExecutorPreference(link.loop.preference) {
      if scans {
        let search = SensorSearch("strap", services: [.heartRate])
        _ = try await SensorFinder.find(search, on: adapter, within: .seconds(5))
      }
      return await stream(adapter)
    }
    run.opcodes = await link.emulation.inspect { controller in
      controller.peripherals.compactMap { $0 as? OddDevice }.first?.opcodes ?? []
    }
    if devices != nil { await adapter.close() }
    await link.close()
    return run
  }

  private func stream(_ adapter: any Adapter) async -> Run {
    let begunAt = adapter.loop.clock.monotonic()
    var plan = DeviceSession.Plan(OddDevice.address)
    plan.patience = .seconds(20)
    let session = DeviceSession(plan, on: adapter)
    let profile = SensorProfile<HeartRateSession>(.none)
    let running = Task(executorPreference: adapter.loop.preference) { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    var run = Run()
    for await sample in profile.samples {
      run.rates.append(sample.measurement.beatsPerMinute)
      if run.rates.count == 5 { break }
    }
    run.length = begunAt.duration(to: adapter.loop.clock.monotonic())
    if run.rates.count == 5 { run.facts = await profile.learned() }
    running.cancel()
    run.failure = await running.value
    run.links = await session.linkCount
    run.remarks = await session.remarks.map { "\($0)" }
    return run
  }

  private func withDevices(_ body: (KnownDevices) async throws -> Void) async throws {
    try await withFolder { folder in
      try await body(KnownDevices(in: folder + "/devices") { Issue.record("\($0)") })
    }
  }

  private func check(_ run: Run, links: Int = 1, _ location: SourceLocation = #_sourceLocation) {
    #expect(run.failure == nil, sourceLocation: location)
    #expect(run.rates.count == 5, sourceLocation: location)
    #expect(run.links == links, sourceLocation: location)
  }

  // MARK: Avoided requests

  /// micropython/micropython-lib#456; also a device that ends its link when its battery is read.
  final class EndsAt: OddDevice {
    private let request: [UInt8]
    init(_ request: [UInt8]) {
      self.request = request
      super.init()
    }
    override func exchangeMTU() -> [[UInt8]] {
      guard request == [0x02] else { return super.exchangeMTU() }
      end()
      return []
    }
    override func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] {
      guard !request.starts(with: self.request) else {
        end()
        return []
      }
      return [pdu]
    }
  }

  @Test(arguments: [[0x02], [0x0A, 12, 0], [0x04]] as [[UInt8]])
  func doesNotAskAgainInTheNextProgram(_ request: [UInt8]) async throws {
    try await withDevices { devices in
      let device: @Sendable () -> OddDevice = { EndsAt(request) }
      check(try await run(devices, device), links: 2)
      let later = try await run(devices, after: 29, device)
      check(later)
      #expect(later.remarks.filter { $0.contains("ringtap skips this now") }.count == 1)
      #expect(later.facts.manufacturer == "Odd")
      #expect(request != [0x02] || !later.opcodes.contains(0x02))
      // After a month the request is sent once more: the device may have other firmware.
      check(try await run(devices, after: 31, device), links: 2)
      check(try await run(devices, after: 31, device))
      // A forgotten device gets the request, too; and nothing is remembered without a folder.
      #expect(try devices.forget(OddDevice.address))
      check(try await run(nil, after: 31, device), links: 2)
      check(try await run(devices, after: 31, device), links: 2)
    }
  }

  /// A subscription that ended a link is sent by the next program, because a stream starts late without one.
  final class EndsAtFirstSubscription: OddDevice {
    override func write(_ handle: UInt16, _ value: [UInt8]) -> [[UInt8]]? {
      guard linkCount == 1 else { return nil }
      end()
      return []
    }
  }

  @Test func remembersNoSubscription() async throws {
    try await withDevices { devices in
      check(try await run(devices) { EndsAtFirstSubscription() }, links: 2)
      #expect(devices.device(at: OddDevice.address)?.avoided == [])
      check(try await run(devices) { OddDevice() })
    }
  }

  // MARK: Attributes that have changed

  /// Other firmware at the same address, without Service Changed: all handles have moved. It accepts writes
  /// to old handles.
  final class Moved: OddDevice {
    override func build() {
      service(0x1800, [(0x2A00, 0x02, Array("Odd".utf8), []), (0x2A01, 0x02, [0, 0], [])])
      buildHeartRate()
      service(0x180F, [(0x2A19, 0x12, [70], [0x2902])])
      service(0x180A, [(0x2A29, 0x02, Array("Odd".utf8), []), (0x2A26, 0x02, Array("2.0".utf8), [])])
    }
  }

  /// The same, but it refuses writes to old handles.
  final class MovedAndStrict: OddDevice {
    override func build() {
      service(0x1800, [(0x2A00, 0x02, Array("Odd".utf8), []), (0x2A01, 0x02, [0, 0], [])])
      buildHeartRate()
    }
    override func write(_ handle: UInt16, _ value: [UInt8]) -> [[UInt8]]? {
      attributes[Int(handle) - 1].type == Self.octets(0x2902) ? nil : [Self.error(0x12, handle, 0x03)]
    }
  }

  @Test(arguments: [{ Moved() }, { MovedAndStrict() }] as [@Sendable () -> OddDevice])
  func discoversAnewWhatHasMoved(_ make: @escaping @Sendable () -> OddDevice) async throws {
    try await withDevices { devices in
      check(try await run(devices) { OddDevice() })
      let moved = try await run(devices, make)
      check(moved)
      #expect(moved.remarks.count { $0.contains("differ from the stored ones") } == 1)
      // Five values of 20 ms each, and at most two seconds until the change is noticed.
      #expect(moved.length < .seconds(2))
      let next = try await run(devices, make)
      check(next)
      #expect(next.remarks == [] && next.length < .seconds(1))
      #expect(!next.opcodes.prefix { $0 != 0x12 }.contains(0x06), "its attributes are known")
    }
  }

  /// Under another name, no attributes are considered known.
  @Test func discoversAnewUnderAnotherName() async throws {
    try await withDevices { devices in
      check(try await run(devices, scans: true) { OddDevice() })
      let moved = try await run(devices, scans: true) {
        let device = Moved()
        device.name = "Else"
        return device
      }
      check(moved)
      #expect(moved.opcodes.first == 0x06 && moved.remarks == [])
      #expect(devices.device(at: OddDevice.address)?.name == "Else")
    }
  }

  /// The stream's handles are unchanged; the others have moved, which the firmware revision shows.
  final class NewFirmware: OddDevice {
    override func build() {
      service(0x1800, [(0x2A00, 0x02, Array("Odd".utf8), [])])
      buildHeartRate()
      service(0x180F, [(0x2A19, 0x02, [50], []), (0x2A19, 0x02, [70], [])])
      service(0x180A, [(0x2A29, 0x02, Array("New".utf8), []), (0x2A26, 0x02, Array("2.0".utf8), [])])
    }
  }

  @Test func discoversAnewBehindOtherFirmware() async throws {
    try await withDevices { devices in
      check(try await run(devices) { OddDevice() })
      #expect(devices.device(at: OddDevice.address)?.firmwareRevision == "1.0")
      let later = try await run(devices) { NewFirmware() }
      check(later)
      #expect(later.facts.manufacturer == "New" && later.facts.firmwareRevision == "2.0")
      #expect(later.remarks.count { $0.contains("differ from the stored ones") } == 1)
      #expect(devices.device(at: OddDevice.address)?.firmwareRevision == "2.0")
    }
  }
}
