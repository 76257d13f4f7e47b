// Prints 300 frames of the raw stream of the first ring in range, and what was lost of it.
//
// RawStream [RADIO]     such as hci1, serial:/dev/ttyAMA0,115200 or virtual:ring,rate=300
import RingTap

await runProgram {
  let radio = try await Radio.open(CommandLine.arguments.dropFirst().first)
  try await radio.withRing { ring in
    for try await sample in ring.rawSamples.prefix(300) { print(sample.time.nanoseconds, sample) }
    print("lost: \(await ring.loss)")
  }
}
