import BLEHost
import BLELinux
import BLEStack
import BLEWire
public import ColmiRing

/// Checks that combine several answers.
extension RingConversation {
  /// The revisions in the Device Information service; `nil` for those that the ring lacks.
  public func revisions() async throws(RingError) -> (hardware: String?, firmware: String?) {
    do throws(GATTError) {
      let database = GATTDatabase(services: try await connection.discoverServices(.deviceInformation))
      var texts: [String?] = []
      for uuid in [BluetoothUUID.hardwareRevision, .firmwareRevision] {
        if let characteristic = database.characteristic(uuid, in: .deviceInformation, with: .read) {
          let octets = try await ring.client.read(characteristic.valueHandle)
          texts.append(String(decoding: octets.prefix { $0 != 0 }, as: UTF8.self))
        } else {
          texts.append(nil)
        }
      }
      return (texts[0], texts[1])
    } catch { throw .host(.gatt(error)) }
  }

  /// Compares the newest entries of today's logs with the expected time of the ring's clock.
  ///
  /// Heart rates are ignored, because their slots after the current time may be outdated.
  public func judgeClock(
    _ now: RingDateTime, localOffsetMinutes: Int
  ) async throws(RingError) -> RingClockCheck.Finding {
    var entries: [(time: RingDateTime, slotMinutes: Int)] = []
    if let entry = try await newestStep() { entries.append((entry, 60)) }
    if let entry = try await newestStress(now.date) { entries.append(entry) }
    let findings = entries.map { entry in
      RingClockCheck(now: now, utcOffsetMinutes: localOffsetMinutes, slotMinutes: entry.slotMinutes)
        .judge(entry.time, .newest)
    }
    return findings.first { $0 != .undecided && $0 != .inStep } ?? findings.first { $0 == .inStep }
      ?? .undecided
  }

  private func newestStep() async throws(RingError) -> RingDateTime? {
    guard
      let log = try await unlessLacking({ () async throws(RingError) in try await activityLog(daysAgo: 0) }),
      let record = log.records.max(by: { $0.slot < $1.slot }), case .valid(let date) = record.date,
      let minute = record.startMinute
    else { return nil }
    return try? RingDateTime(date: date, hour: minute / 60, minute: minute % 60)
  }

  /// Assumes that the ring's today is `date`.
  private func newestStress(_ date: RingDate) async throws(RingError) -> (
    time: RingDateTime, slotMinutes: Int
  )? {
    guard
      let log = try await unlessLacking({ () async throws(RingError) in try await stressLog(daysAgo: 0) }),
      let slot = log.entries.last?.slot
    else { return nil }
    let minute = slot * log.intervalMinutes
    guard let time = try? RingDateTime(date: date, hour: minute / 60, minute: minute % 60) else { return nil }
    return (time, log.intervalMinutes)
  }

  /// Returns `nil` if the ring does not answer the request.
  private func unlessLacking<Value: Sendable>(
    _ body: () async throws(RingError) -> Value?
  ) async throws(RingError) -> Value? {
    do throws(RingError) { return try await body() } catch {
      switch error {
      case .refused, .noReply, .lacking: return nil
      default: throw error
      }
    }
  }
}
