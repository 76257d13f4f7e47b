// Prints the pulse of the first ring in range, three windows of ten seconds, and what was lost of its stream.
//
// Pulse [RADIO]     such as virtual:ring,rate=75
import RingTap

await runProgram {
  let radio = try await Radio.open(CommandLine.arguments.dropFirst().first)
  try await radio.withRing { ring in
    var (ticks, meter, windows) = (TickStream(), PulseMeter?.none, 0)
    for try await sample in ring.rawSamples {
      if windows == 3 { break }
      ticks.take(sample.sample, at: sample.time)
      while let tick = ticks.next() {
        if meter == nil, let period = ticks.period { meter = try PulseMeter(rate: 1e9 / period) }
        guard let window = meter?.take(tick.signal) else { continue }
        print(window.beatsPerMinute.map { "\(Int($0.rounded())) beats a minute" } ?? "rejected")
        windows += 1
      }
    }
    print("lost: \(await ring.loss)")
  }
}
