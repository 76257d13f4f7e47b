// Prints what a heart-rate strap measures, until Ctrl-C; a lost link is made again for a minute.
//
// HeartRate [RADIO]     such as virtual:heart-rate
import RingTap

await runProgram {
  let radio = try await Radio.open(CommandLine.arguments.dropFirst().first)
  try await radio.withSensor(.heartRate, patience: .seconds(60)) { strap in
    let facts = await strap.facts
    print("\(facts.model ?? "a sensor") at \(strap.address)")
    for try await beat in strap.values {
      let intervals = beat.rrIntervals.map { "\(Int(($0 / .milliseconds(1)).rounded())) ms" }
      print(beat.time.nanoseconds, beat.beatsPerMinute, intervals.joined(separator: " "))
    }
  }
}
