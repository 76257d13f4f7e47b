import BLELinux
package import JSONText

/// How the clocks of several devices that were recorded together lie to each other: `alignment.json` in the directory above theirs.
package struct Alignment: Sendable, Hashable {
  package static let fileName = "alignment.json"
  private static let documentLimit = 1 << 22

  package struct Device: Sendable, Hashable {
    /// The name of its directory.
    package var directory: String
    /// How much later than the reference it has the same things at `Alignment.at`: nanoseconds; `nil` if that is not known.
    package var late: Double?
    /// Half of the range around `late` that has, in 95 of 100 cases, how much later the device sends what both have seen. It has the
    /// waits for connection events in it, which rows cannot be told from. `nil` if a wait is not known.
    package var lateUncertainty: Double?
    /// Half of the range of the distance between the rows of both alone, which is what `convert --grid` needs; `nil` for a strap,
    /// which has no rows on a clock of its own.
    package var rowUncertainty: Double?
    /// How that grows: nanoseconds a second, a thousandth part in a million each.
    package var drift = 0.0
    /// `nil` where no drift could be told.
    package var driftUncertainty: Double?
    /// How much faster than the reference's own clock its own runs, if it tells seconds: a share. The kernel's is in the place of a
    /// reference's that tells none.
    package var clockDrift: Double?
    /// Half of the range that has it in 95 of 100 cases: a share.
    package var clockUncertainty: Double?
    /// Ticks a second by that clock, if it counts ticks.
    package var rate: Double?
    /// Half of the range that has it in 95 of 100 cases: ticks a second.
    package var rateUncertainty: Double?
    /// By what it was found, from one device to the other.
    package var evidence: [Evidence] = []
    /// Why it was not found by others.
    package var refusals: [Refusal] = []

    package init(directory: String) { self.directory = directory }
  }

  package struct Evidence: Sendable, Hashable {
    package var with: String
    /// `movement` or `beats`.
    package var kind: String
    package var likeness: Double
    package var places: Int
    /// Root mean square: nanoseconds.
    package var residual: Double
    /// Whether one of them sees beats as they come through the arteries: the offset has that way in it.
    package var hasPulseTransit: Bool

    package init(
      with: String, kind: String, likeness: Double, places: Int, residual: Double, hasPulseTransit: Bool
    ) {
      (self.with, self.kind, self.likeness, self.places) = (with, kind, likeness, places)
      (self.residual, self.hasPulseTransit) = (residual, hasPulseTransit)
    }
  }

  package struct Refusal: Sendable, Hashable {
    package var with: String
    package var why: String

    package init(with: String, why: String) { (self.with, self.why) = (with, why) }
  }

  /// The directory of the device that the others are compared with.
  package var reference: String
  /// When `late` is: nanoseconds since the Unix epoch.
  package var at: Int64
  package var devices: [Device]

  package init(reference: String, at: Int64, devices: [Device]) {
    (self.reference, self.at, self.devices) = (reference, at, devices)
  }

  /// What a time of a device is on the reference's clock: both in nanoseconds since the Unix epoch. As it was where nothing is known.
  package func time(_ time: Int64, of device: Device) -> Int64 {
    guard let late = device.late else { return time }
    return time &- Int64((late + device.drift * Double(time &- at) / 1e9).rounded())
  }

  // MARK: The file

  package func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("formatVersion", 1)
      line.member("reference", reference)
      line.member("atNs", nanoseconds: at)
      line.member("devices", array: { line in for device in devices { Self.encode(device, &line) } })
    }
    line.endLine()
  }

  private static func encode(_ device: Device, _ line: inout JSONLine) {
    line.object { line in
      line.member("directory", device.directory)
      line.member("lateMs", optional: device.late.map { $0 / 1e6 })
      line.member("lateUncertaintyMs", optional: device.lateUncertainty.map { $0 / 1e6 })
      line.member("rowUncertaintyMs", optional: device.rowUncertainty.map { $0 / 1e6 })
      line.member("driftPPM", optional: device.late == nil ? nil : device.drift / 1e3)
      line.member("driftUncertaintyPPM", optional: device.driftUncertainty.map { $0 / 1e3 })
      line.member("clockPPM", optional: device.clockDrift.map { $0 * 1e6 })
      line.member("clockUncertaintyPPM", optional: device.clockUncertainty.map { $0 * 1e6 })
      line.member("rateHz", optional: device.rate)
      line.member("rateUncertaintyHz", optional: device.rateUncertainty)
      line.member(
        "evidence",
        array: { line in
          for evidence in device.evidence {
            line.object { line in
              line.member("with", evidence.with)
              line.member("kind", evidence.kind)
              line.member("likeness", evidence.likeness)
              line.member("places", evidence.places)
              line.member("residualMs", evidence.residual / 1e6)
              line.member("pulseTransit", evidence.hasPulseTransit)
            }
          }
        })
      line.member(
        "refused",
        array: { line in
          for refusal in device.refusals {
            line.object { line in
              line.member("with", refusal.with)
              line.member("why", refusal.why)
            }
          }
        })
    }
  }

  /// What `ringtap align` has left in a directory.
  ///
  /// - Throws: why it cannot be used.
  package init(in directory: String) throws(ConversionError) {
    let path = directory + "/" + Self.fileName
    let octets: [UInt8]
    do throws(SystemError) { octets = try Files.octets(of: path, limit: Self.documentLimit) } catch {
      throw .unsuitable("\(error); make it: ringtap align \(directory)")
    }
    guard let document = try? JSONDocument(octets), let reference = document["reference"]?.text,
      let at = document["atNs"]?.nanoseconds, let list = document["devices"]?.array
    else { throw .unsuitable("\(path) cannot be read; make it anew: ringtap align \(directory)") }
    var devices: [Device] = []
    for entry in list {
      guard let name = entry["directory"]?.text, !name.contains("/"), name != ".." else {
        throw .unsuitable(
          "\(path) names a device that is no directory beside it; make it anew: ringtap align \(directory)")
      }
      var device = Device(directory: name)
      device.late = entry["lateMs"]?.real.map { $0 * 1e6 }
      device.drift = (entry["driftPPM"]?.real ?? 0) * 1e3
      guard abs(device.late ?? 0) < 1e15, abs(device.drift) < 1e8 else {
        throw .unsuitable("\(path) has an offset of years; make it anew: ringtap align \(directory)")
      }
      devices.append(device)
    }
    self.init(reference: reference, at: at, devices: devices)
  }
}
