// A sensor that no library knows: how it is found, how its values are read, what is recorded of it, and how it is emulated.
//
// OwnSensor [DIRECTORY] [RADIO]     prints ten values, or records ten into a directory; of an emulated belt if no radio is given
import RingTap

/// A value of a belt around the chest. Octets: breaths a minute in halves; millilitres, 16 bits, the low octet first.
struct Breath: SensorSample {
  let time: ReceiveTime
  let perMinute: Double
  let millilitres: Int

  init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
    guard value.count >= 3 else { throw .truncated(.att, needed: 3, available: value.count) }
    self.time = time
    perMinute = Double(value[0]) / 2
    millilitres = Int(value[1]) + 256 * Int(value[2])
  }
}

let belt = SensorKind(
  "breathing belt", of: Breath.self, service: "f00d0001-8e6a-4a6b-9c3e-2b1f5d7a9c10",
  characteristic: "f00d0002-8e6a-4a6b-9c3e-2b1f5d7a9c10", table: "breaths",
  columns: [
    .number("breaths_per_minute", unit: "1/min", decimals: 1) { $0.perMinute },
    .number("depth_ml", unit: "mL", decimals: 0) { Double($0.millilitres) },
  ],
  // From 12 breaths a minute up by halves, and from half a litre up by millilitres.
  emulation: { number in
    let depth = 500 + number % 100
    return [UInt8(24 + number % 100), UInt8(depth % 256), UInt8(depth / 256)]
  })

await runProgram {
  let arguments = CommandLine.arguments.dropFirst().map { String($0) }
  let radio =
    if arguments.count > 1 {
      try await Radio.open(arguments[1])
    } else {
      try await Radio.open(emulating: belt, valuesPerSecond: 20)
    }
  if let directory = arguments.first {
    let recording = try await Recording.run(belt, on: radio, to: directory, count: 10)
    print("\(recording.received) received, \(recording.lost) lost")
  } else {
    try await radio.withSensor(belt) { belt in
      for try await breath in belt.values.prefix(10) { print(breath.perMinute, breath.millilitres) }
    }
  }
}
