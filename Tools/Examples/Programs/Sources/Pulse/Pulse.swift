// Prints the pulse of the first ring in range, at rest and in motion, ten windows of eight seconds, and what was lost of its
// stream.
//
// Pulse [RADIO]     such as virtual:ring,rate=75
import RingTap

await runProgram {
  let radio = try await Radio.open(CommandLine.arguments.dropFirst().first)
  try await radio.withRing { ring in
    var (ticks, meter, windows) = (TickStream(), PulseRateMeter?.none, 0)
    for try await sample in ring.rawSamples {
      if windows >= 10 { break }
      ticks.take(sample.sample, at: sample.time)
      while let tick = ticks.next() {
        if meter == nil, let period = ticks.period { meter = try PulseRateMeter(rate: 1e9 / period) }
        _ = meter?.take(tick.signal)
        while let window = meter?.next() {
          print(window.pulse.map(words) ?? "no pulse")
          windows += 1
        }
      }
    }
    print("lost: \(await ring.loss)")
  }
}

func words(_ pulse: PulseEstimate) -> String {
  "\(Int(pulse.beatsPerMinute.rounded())) a minute by \(pulse.method), quality \(Int(100 * pulse.quality)) %"
}
