// Prints the pulse of the first ring in range, three windows of ten seconds, and what was lost of its stream.
// By the kernel's first adapter, or by the controller at a transport: `swift run Pulse tcp-client:127.0.0.1:6402`.
import BLEHost
import BLELinux
import ColmiRing
import Physiology
import SensorSessions

do {
  let (loop, transport) = (try EventLoop.start(), CommandLine.arguments.dropFirst().first)
  let adapter: any Adapter =
    if let transport {
      try await HostAdapter.open(TransportSpecification(transport), on: loop)
    } else { KernelAdapter(try KernelAdapter.find(nil), on: loop) }
  let ring = try await RingFinder.find(on: adapter, within: .seconds(30))
  let session = DeviceSession(DeviceSession.Plan(ring.address), on: adapter)
  let profile = SensorProfile<RingSession>(())
  let running = Task {
    defer { profile.finish() }
    try await session.run(profile)
  }
  var (ticks, meter, windows) = (TickStream(), PulseMeter?.none, 0)
  stream: for await reading in profile.samples {
    ticks.take(reading.sample, at: reading.time)
    while let tick = ticks.next() {
      if meter == nil, let rate = ticks.period.map({ 1e9 / $0 }) {
        do { meter = try PulseMeter(rate: rate) } catch {
          print(error)
          break stream
        }
      }
      guard let window = meter?.take(tick.signal) else { continue }
      print(window.beatsPerMinute.map { "\(Int($0.rounded())) beats a minute" } ?? "rejected")
      windows += 1
      if windows == 3 { break stream }
    }
  }
  running.cancel()  // Has the ring stop, and closes the link.
  try await running.value
  print("lost: \(profile.samples.dropped + (await session.statistics.kernelQueueDrops))")
} catch { print("no pulse: \(error)") }
