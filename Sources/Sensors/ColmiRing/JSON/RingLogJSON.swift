import JSONText

/// JSON keys of logs. These are a stable interface.
extension FieldList {
  package mutating func members(of log: RingDayLog) {
    kind(log.kind.logName)
    member("packetCount", log.frameCount)
    member("intervalMinutes", log.intervalMinutes)
    switch log.day {
    case .timestamp(let timestamp):
      member("timestamp", timestamp)
      member("timestampUTC", CivilTime(timestamp).text + "Z")
    case .daysAgo(let days): member("daysAgo", days)
    case nil: nullMember(log.kind == .heartRate ? "timestamp" : "daysAgo")
    }
    if log.kind == .heartRate { member("slotCount", log.samples.count) }
    member(
      "nonZero",
      array: { line in
        for entry in log.entries { line.row(entry.slot, Int(entry.value)) }
      })
    if !log.isComplete { member("complete", false) }
  }

  package mutating func members(of log: RingActivityLog) {
    kind("activityLog")
    member("recordCount", log.recordCount)
    switch log.calorieUnit {
    case .tenCalories: member("newCalorieUnit", true)
    case .unknown: member("newCalorieUnit", false)
    case nil: nullMember("newCalorieUnit")
    }
    member("totalSteps", log.steps)
    member("totalDistanceMeters", log.distanceMeters)
    member(
      "records",
      array: { line in
        for record in log.records {
          line.object { $0.members(of: record, total: log.recordCount) }
        }
      })
    if !log.isComplete { member("complete", false) }
  }

  private mutating func members(of record: RingActivityRecord, total: Int) {
    switch record.date {
    case .valid(let date): member("date", CivilTime.text(Int(date.year), Int(date.month), Int(date.day)))
    case .impossible: nullMember("date")
    }
    member("slot", record.slot)
    member("index", record.index)
    member("total", total)
    member("caloriesRaw", record.calories)
    member("steps", record.steps)
    member("distanceMeters", record.distanceMeters)
  }

  // MARK: Big data

  package mutating func members(of reply: RingBigDataReply, _ message: RingBigData) {
    switch reply {
    case .sleepLog(let records): members(of: records, kind: "sleep", message)
    case .nap(let records): members(of: records, kind: "nap", message)
    case .spO2(let days):
      members(of: message, kind: "spo2Log")
      member(
        "days",
        array: { line in
          for day in days { line.object { $0.members(of: day) } }
        })
    case .temperature(let days):
      members(of: message, kind: "temperatureLog")
      member(
        "days",
        array: { line in
          for day in days { line.object { $0.members(of: day) } }
        })
    case .manualHeartRate(let log):
      members(of: message, kind: "manualHeartRate")
      member("daysAgo", log.daysAgo)
      member(
        "entries",
        array: { line in
          for entry in log.entries { line.row(Int(entry.minute), Int(entry.beatsPerMinute)) }
        })
    case .intervalTemperature(let packet):
      members(of: message, kind: "intervalTemperature")
      member("daysAgo", packet.daysAgo)
      member("intervalMinutes", packet.intervalMinutes)
      member("packetCount", packet.packetCount)
      member("index", packet.index)
      member(
        "centiCelsius",
        array: { line in
          for sample in packet.samples { line.value(sample) }
        })
    case .status(_, let code):
      members(of: message, kind: "bigDataStatus")
      member("status", code)
    case .firmware(let reply):
      kind("dfuResponse")
      member("command", reply.command)
      member("status", reply.status.rawValue)
    case .unknown:
      members(of: message, kind: "bigData")
      member("payload", hex: message.payload)
    }
  }

  private mutating func members(of message: RingBigData, kind: String) {
    self.kind(kind)
    member("dataId", message.id)
    member("payloadLength", message.payload.count)
    member("crc16", message.checksum.upperCaseText)
    member("crcValid", message.isChecksumValid)
  }

  private mutating func members(of records: [RingSleep], kind: String, _ message: RingBigData) {
    members(of: message, kind: kind)
    member("recordCount", records.count)
    member(
      "records",
      array: { line in
        for record in records { line.object { $0.members(of: record) } }
      })
  }

  private mutating func members(of record: RingSleep) {
    member("daysAgo", record.daysAgo)
    member("byteCount", record.byteCount)
    member("startMinute", record.startMinute)
    member("endMinute", record.endMinute)
    member(
      "stages",
      array: { line in
        for span in record.stages { line.row(Int(span.stage.rawValue), Int(span.minutes)) }
      })
    member("stageMinutesSum", record.stageMinutes)
  }

  private mutating func members(of day: RingSpO2Day) {
    member("daysAgo", day.daysAgo)
    member(
      "hours",
      array: { line in
        for hour in day.hours { line.row(Int(hour.hour), Int(hour.minimum), Int(hour.maximum)) }
      })
  }

  private mutating func members(of day: RingTemperatureDay) {
    member("daysAgo", day.daysAgo)
    member("intervalMinutes", day.intervalMinutes)
    member(readings: day.readings)
  }

  /// Adds a day of interval temperatures, combined from its packets.
  package mutating func members(of log: RingIntervalTemperatureLog) {
    kind("intervalTemperatureLog")
    member("daysAgo", log.daysAgo)
    member("intervalMinutes", log.intervalMinutes)
    member(readings: log.readings)
    if !log.isComplete { member("complete", false) }
  }

  /// Adds readings as pairs: minute of the day, degrees Celsius.
  private mutating func member(readings: [RingTemperatureDay.Reading]) {
    member(
      "readings",
      array: { line in
        for reading in readings {
          line.array {
            $0.value(reading.minute)
            $0.value(reading.celsius)
          }
        }
      })
  }

  /// Adds a description of how the pieces of messages were reassembled.
  mutating func members(ofReassembly events: [RingBigDataReassembler.Event]) {
    let messages = events.compactMap { event -> RingBigData? in
      switch event {
      case .message(let message), .failed(.checksum(let message)): message
      case .raw, .failed: nil
      }
    }
    let failures = events.filter { if case .failed = $0 { true } else { false } }.count
    guard let first = messages.first else { return invalid(.length(claimed: 0, available: 0)) }
    kind("reassembly")
    member("frames", messages.count)
    member("dataId", first.id)
    member("payloadLength", first.payload.count)
    member("crcValid", messages.allSatisfy(\.isChecksumValid))
    let others = failures - messages.filter { !$0.isChecksumValid }.count
    if others > 0 { member("failures", others) }
  }
}

extension RingLogKind {
  fileprivate var logName: String {
    switch self {
    case .heartRate: "heartRateLog"
    case .stress: "stressLog"
    case .heartRateVariability: "hrvLog"
    case .activity: "activityLog"
    case .unnamed: "unnamedLog"
    }
  }
}
