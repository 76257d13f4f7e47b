// Records a ring for a minute, or as long as you say, as `ringtap capture` does: tables, packet log, session.json.
//
// Record DIRECTORY [SECONDS] [RADIO]     such as walk 10 virtual:ring,rate=300
import RingTap

let arguments = CommandLine.arguments.dropFirst().map { String($0) }
guard let directory = arguments.first else { fatalError("where to? Name a directory") }

await runProgram {
  let seconds = arguments.dropFirst().first.flatMap { Double($0) } ?? 60
  let radio = try await Radio.open(arguments.dropFirst(2).first)
  let recording = try await Recording.run(
    .ring, on: radio, to: directory, for: .seconds(seconds), patience: .seconds(60))
  print("\(recording.received) received, \(recording.lost) lost, \(recording.gaps.count) gaps")
  if let failure = recording.failure { print("it ended early: \(failure)") }
}
