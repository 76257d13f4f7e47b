/// Words and units for text, derived from the names in JSON.
extension Field {
  /// `runningSteps` becomes "running steps", `distanceMeters` "distance".
  package static func words(of name: String) -> String {
    var words: [String] = []
    for scalar in stem(of: name).unicodeScalars {
      let isCapital = ("A"..."Z").contains(scalar)
      if words.isEmpty || isCapital { words.append("") }
      words[words.count - 1].unicodeScalars.append(
        isCapital ? Unicode.Scalar(UInt8(scalar.value) | 0x20) : scalar)
    }
    return words.map { abbreviations[$0] ?? $0 }.joined(separator: " ")
  }

  /// Returns `m` for `distanceMeters`.
  package static func unit(of name: String) -> String? { suffix(of: name)?.unit }

  private static func stem(of name: String) -> Substring {
    guard let suffix = suffix(of: name) else { return name[...] }
    return name.dropLast(suffix.name.count)
  }

  private static func suffix(of name: String) -> (name: String, unit: String)? {
    suffixes.first { name.utf8.count > $0.name.utf8.count && name.hasSuffix($0.name) }
  }

  /// A suffix that ends in another suffix must precede it.
  private static let suffixes: [(name: String, unit: String)] = [
    ("MetersPerSecond", "m/s"), ("DegreesPerSecond", "°/s"), ("RevolutionsPerMinute", "/min"),
    ("PerMinute", "/min"), ("Nanoseconds", "ns"), ("Milliseconds", "ms"), ("Seconds", "s"),
    ("Minutes", "min"), ("1024ths", "/1024 s"), ("Bpm", "beats/min"), ("Percent", "%"), ("Celsius", "°C"),
    ("Fahrenheit", "°F"), ("Meters", "m"), ("Kilojoules", "kJ"), ("Hectopascal", "hPa"),
    ("Microvolts", "µV"), ("MilliG", "mg"), ("Gauss", "G"), ("Hz", "Hz"), ("Cal", "cal"), ("Cm", "cm"),
    ("Kg", "kg"), ("Ms", "ms"), ("G", "g"), ("UTC", "UTC"),
  ]

  private static let abbreviations = [
    "spo2": "SpO2", "hrv": "HRV", "hr": "heart rate", "crc16": "CRC-16", "crc": "CRC", "rr": "RR",
    "ecg": "ECG", "ppg": "PPG", "ack": "acknowledged", "id": "identifier",
  ]
}
