import BLEWire
import ColmiRing
import TestKit
import Testing

@Suite struct RingRequestTests {
  @Test(arguments: RingRequestVector.of("host->ring", "uart"))
  func encodesWhatHostsSent(_ vector: RingRequestVector) throws {
    let sent = try sentFrame(vector.expect)
    let command = try command(of: sent)
    #expect([octets(of: command)] == vector.frames)
  }

  @Test(arguments: RingRequestVector.of("host->ring", "uart"))
  func readsWhatHostsSent(_ vector: RingRequestVector) throws {
    let octets = vector.frames[0]
    let frame = try RingFrame(validating: octets.span)
    let sent = try RingSentFrame(decoding: frame)
    #expect(try sent == sentFrame(vector.expect))
  }

  /// From section 3 of the protocol, for requests without a vector.
  @Test(
    arguments: [
      (.readSetting(.doNotDisturb), "06 01"), (.readSetting(.display), "05 03 01"),
      (.deleteSetting(.menstruation), "2b 03"), (.readPreferences, "0a 01"), (.camera(.keepAlive), "02 05"),
      (.realtimeHeartRate, "1e 03"), (.readAutomaticMeasurement(.spO2), "2c 01"),
      (.readAutomaticMeasurement(.temperature), "3a 03 01"),
      (.writeAutomaticMeasurement(RingAutomaticMeasurement(.temperature, isEnabled: true)), "3a 03 02 01"),
      (
        .writeAutomaticMeasurement(RingAutomaticMeasurement(.heartRateVariability, isEnabled: false)),
        "38 02 00"
      ),
      (.heartRateVariabilityLog(daysAgo: 3), "39 03"), (.unnamedLog(daysAgo: 2), "7a 01 02"),
      (.activityLog(daysAgo: 4), "43 04 0f 00 5f 01"), (.todayTotals, "48"), (.readTouch(1), "3b 01 01"),
      (.writeTouch(appType: 5, strength: 6), "3b 02 01 05 06"), (.sport(.start, .run), "77 01 07"),
      (.sport(.end, .cycle), "77 04 09"), (.rawStream(.snapshot), "a1 03"), (.rawStream(.optical), "a1 01"),
      (.measure(.heartRate, .resume), "69 01 03"), (.messageFilter, "61"),
    ] as [(RingRequest, String)])
  func encodesWhatTheReferenceSays(_ request: RingRequest, _ start: String) throws {
    let expected = octetsOf(start)
    let octets = octets(of: request.command)
    #expect(octets == (expected + [UInt8](repeating: 0, count: 16 - expected.count)).resummed)
    let frame = try RingFrame(validating: octets.span)
    let sent = try RingSentFrame(decoding: frame)
    #expect(sent == .request(request))
  }

  @Test func keepsDangerousRequestsApart() throws {
    #expect(octets(of: RingDangerousRequest.powerOff.command) == octetsOf("08010000000000000000000000000009"))
    #expect(octets(of: RingDangerousRequest.reboot.command) == octetsOf("08000000000000000000000000000008"))
    #expect(
      octets(of: RingDangerousRequest.factoryReset.command) == octetsOf("ff6666000000000000000000000000cb"))
    for request in RingDangerousRequest.allCases {
      let octets = octets(of: request.command)
      let sent = try RingSentFrame(decoding: RingFrame(validating: octets.span))
      #expect(sent == .dangerous(request))
    }
  }

  /// Any request of a host is read or rejected, and a request that is read gives the same bytes when sent.
  @Test(arguments: RingRequestVector.of("host->ring", "uart"))
  func readsEveryOctetAtEveryPlace(_ vector: RingRequestVector) throws {
    // Collected first, because an expectation is slower than the check itself.
    var wrong: [[UInt8]] = []
    for frame in everyOctetAtEveryPlace(of: vector.frames[0], count: 15).map(\.resummed) {
      do throws(WireError) {
        guard case .request(let request) = try RingSentFrame(decoding: RingFrame(validating: frame.span))
        else { continue }
        let again = octets(of: request.command)
        let sent = try RingSentFrame(decoding: RingFrame(validating: again.span))
        if sent != .request(request) { wrong.append(frame) }
      } catch {
        // Only dates and names can be invalid.
        if frame[0] != 0x01, frame[0] != 0x04 { wrong.append(frame) }
      }
    }
    #expect(wrong.isEmpty)
  }

  @Test(arguments: [
    ("01 25 13 01 00 00 00", 1), ("01 25 02 29 00 00 00", 1), ("01 2a 01 01 00 00 00", 1),
    ("01 25 01 01 24 00 00", 4), ("01 25 01 01 23 60 00", 4), ("01 25 01 01 23 59 6a", 4),
    ("04 02 0a c3 a9", 3),
  ])
  func refusesWhatNoClockShows(_ start: String, offset: Int) {
    let frame = octetsOf(start)
    let octets = (frame + [UInt8](repeating: 0, count: 16 - frame.count)).resummed
    let error = #expect(throws: WireError.self) {
      _ = try RingSentFrame(decoding: RingFrame(validating: octets.span))
    }
    #expect(error?.offset == offset)
  }

  @Test func refusesNamesThatDoNotFit() {
    for name in ["thirteen octe", "é", "a\n"] {
      #expect(throws: RingValueError.phoneName) { try RingPhoneName(name: name) }
    }
  }

  private func command(of sent: RingSentFrame) throws -> RingCommand {
    switch sent {
    case .request(let request): request.command
    case .dangerous(let request): request.command
    case .setting(_, let command), .unknown(let command): command
    }
  }

  /// The request that a vector's keys describe.
  private func sentFrame(_ expect: RingRequestVector.Expectation) throws -> RingSentFrame {
    if expect.kind == "powerOff" { return .dangerous(.powerOff) }
    return .request(try request(expect))
  }

  private func request(_ expect: RingRequestVector.Expectation) throws -> RingRequest {
    switch expect.kind {
    case "batteryRequest": .battery
    case "setTime": try timeRequest(expect)
    case "phoneName":
      .phoneName(
        try RingPhoneName(
          clientMajor: #require(expect.clientMajor), clientMinor: #require(expect.clientMinor),
          name: #require(expect.name)))
    case "deviceSupportRequest": .deviceSupport
    case "hrLogSettingsRead": .readHeartRateLogSettings
    case "hrLogSettingsWrite":
      .writeHeartRateLogSettings(
        RingHeartRateLogSettings(
          isEnabled: try #require(expect.enabled as Bool?),
          intervalMinutes: try #require(expect.intervalMinutes)))
    case "spo2SettingsWrite": try .writeAutomaticMeasurement(measurement(.spO2, expect))
    case "stressSettingsWrite": try .writeAutomaticMeasurement(measurement(.stress, expect))
    case "goalsRead": .goals
    case "userPreferencesWrite": .writePreferences(try preferences(expect))
    case "activityRequest": .activityLog(daysAgo: try #require(expect.daysAgo))
    case "heartRateLogRequest": .heartRateLog(timestamp: try #require(expect.timestamp))
    case "stressLogRequest": .stressLog(daysAgo: try #require(expect.daysAgo))
    case "findDevice": .findDevice
    case "blinkTwice": .blinkTwice
    case "rawStart": .rawStream(expect.variant == "A1 04" ? .start : .startLong)
    case "rawStop": .rawStream(.stop)
    case "realtimeStart":
      .measure(
        RingMeasurement(rawValue: try #require(expect.type)),
        RingMeasurementAction(rawValue: try #require(expect.action)))
    case "realtimeStop":
      .stopMeasuring(
        RingMeasurement(rawValue: try #require(expect.type)), lastValue: try #require(expect.lastValue))
    case "cameraModeEnter": .camera(.enter)
    case "cameraModeExit": .camera(.leave)
    default: throw UnknownKind(kind: expect.kind)
    }
  }

  private struct UnknownKind: Error { let kind: String }

  private func measurement(
    _ sensor: RingAutomaticSensor, _ expect: RingRequestVector.Expectation
  ) throws -> RingAutomaticMeasurement {
    RingAutomaticMeasurement(sensor, isEnabled: try #require(expect.enabled as Bool?))
  }

  private func timeRequest(_ expect: RingRequestVector.Expectation) throws -> RingRequest {
    let date = try RingDate(
      year: #require(expect.year), month: #require(expect.month), day: #require(expect.day))
    let time = try RingDateTime(
      date: date, hour: #require(expect.hour), minute: #require(expect.minute),
      second: #require(expect.second))
    return .setTime(time, language: RingLanguage(rawValue: try #require(expect.language)))
  }

  private func preferences(_ expect: RingRequestVector.Expectation) throws -> RingPreferences {
    RingPreferences(
      uses12HourClock: expect.is12h == 1, usesImperialUnits: expect.imperial == 1,
      gender: RingPreferences.Gender(rawValue: try #require(expect.gender)),
      ageYears: try #require(expect.age),
      heightCentimeters: try #require(expect.heightCm), weightKilograms: try #require(expect.weightKg),
      systolicPressure: try #require(expect.systolic), diastolicPressure: try #require(expect.diastolic),
      heartRateAlarm: try #require(expect.hrAlarm))
  }
}
