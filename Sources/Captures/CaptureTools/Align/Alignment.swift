import BLELinux
import BLEWire
package import JSONText
import Recording

/// Offsets between the clocks of devices that were recorded together. Stored as `alignment.json` in the
/// parent directory of the captures.
package struct Alignment: Sendable, Hashable {
  package static let fileName = "alignment.json"
  private static let documentLimit = 1 << 22

  package struct Device: Sendable, Hashable {
    /// Name of the device's directory.
    package var directory: String
    /// Offset from the reference at `Alignment.at`, in nanoseconds: the device's timestamp of an event minus
    /// the reference's timestamp. `nil` if unknown.
    package var late: Double?
    /// Half-width of the 95 % interval of `late`, in nanoseconds. It includes the waits for connection
    /// events, which the tables do not contain. `nil` if a wait is unknown.
    package var lateUncertainty: Double?
    /// Half-width of the 95 % confidence interval of the offset between the rows of the two devices, in
    /// nanoseconds, for `convert --grid`. `nil` for a strap, whose rows have receive timestamps.
    package var rowUncertainty: Double?
    /// Increase of `late`, in nanoseconds per second (1 ns/s is 0.001 ppm).
    package var drift = 0.0
    /// Half-width of the 95 % interval of `drift`, in nanoseconds per second; `nil` if the drift could not be
    /// determined.
    package var driftUncertainty: Double?
    /// Rate of the device's clock relative to the reference's clock, minus 1, if the device counts seconds.
    /// If the reference does not count seconds, the rate is relative to the kernel's clock.
    package var clockDrift: Double?
    /// Half-width of the 95 % interval of `clockDrift`.
    package var clockUncertainty: Double?
    /// Ticks per second of the device's clock, if the device counts ticks.
    package var rate: Double?
    /// Half-width of the 95 % interval of `rate`, in ticks per second.
    package var rateUncertainty: Double?
    /// Comparisons from which the result was computed, each with the next device on the way to the reference.
    package var evidence: [Evidence] = []
    /// Comparisons without a result, with their reasons.
    package var refusals: [Refusal] = []

    package init(directory: String) { self.directory = directory }
  }

  package struct Evidence: Sendable, Hashable {
    package var with: String
    /// Kind of the shared signal: `movement` or `beats`.
    package var kind: String
    package var likeness: Double
    package var places: Int
    /// Root mean square residual, in nanoseconds.
    package var residual: Double
    /// Whether one of the two sensors measures the pulse optically, so that the offset includes the pulse
    /// transit time.
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

  /// Directory of the reference device.
  package var reference: String
  /// Time for which `late` was computed, in nanoseconds since the Unix epoch.
  package var at: Int64
  package var devices: [Device]

  package init(reference: String, at: Int64, devices: [Device]) {
    (self.reference, self.at, self.devices) = (reference, at, devices)
  }

  /// Converts a device's time to the reference's clock. Both times are in nanoseconds since the Unix epoch.
  /// Returns the time unchanged if the offset is unknown.
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

  /// Reads the file that `ringtap align` wrote to a directory.
  ///
  /// - Throws: the reason why the file cannot be used.
  package init(in directory: String) throws(ConversionError) {
    let path = directory + "/" + Self.fileName
    let octets: [UInt8]
    do throws(SystemError) { octets = try Files.octets(of: path, limit: Self.documentLimit) } catch {
      throw .unsuitable("\(error); create it: ringtap align \(directory)")
    }
    guard let document = try? JSONDocument(octets), let reference = document["reference"]?.text,
      let at = document["atNs"]?.nanoseconds, let list = document["devices"]?.array
    else { throw .unsuitable("\(path) cannot be read; create it again: ringtap align \(directory)") }
    var devices: [Device] = []
    for entry in list {
      guard let name = entry["directory"]?.text, !name.contains("/"), name != ".." else {
        throw .unsuitable(
          "\(path) names a device that has no directory beside it; create it again: ringtap align "
            + "\(directory)")
      }
      var device = Device(directory: name)
      device.late = entry["lateMs"]?.real.map { $0 * 1e6 }
      device.drift = (entry["driftPPM"]?.real ?? 0) * 1e3
      guard abs(device.late ?? 0) < 1e15, abs(device.drift) < 1e8 else {
        throw .unsuitable("\(path) has an offset of years; create it again: ringtap align \(directory)")
      }
      devices.append(device)
    }
    self.init(reference: reference, at: at, devices: devices)
  }
}

/// Describes an alignment for the user, with one fact per line.
package enum AlignmentText {
  package static func text(_ alignment: Alignment) -> String {
    let width = alignment.devices.map(\.directory.count).max() ?? 0
    var lines: [String] = []
    for device in alignment.devices {
      let name = device.directory + String(repeating: " ", count: width - device.directory.count + 2)
      let indent = String(repeating: " ", count: width + 2)
      if device.directory == alignment.reference {
        lines.append(name + "the reference")
        continue
      }
      guard let late = device.late else {
        lines.append(name + "not aligned")
        lines += device.refusals.map { "\(indent)with \($0.with): \($0.why)" }
        continue
      }
      lines.append(name + offset(late, device.lateUncertainty) + drift(device))
      if let rows = device.rowUncertainty {
        lines.append(
          "\(indent)the offset of its rows to the reference's is known to ± \(fixed(rows / 1e6, 2)) ms; the "
            + "rest is the waiting time of packets"
        )
      }
      if device.lateUncertainty == nil {
        lines.append("\(indent)\(unknownWait)")
      }
      if let clock = device.clockDrift {
        lines.append(
          "\(indent)its own clock is "
            + "\(fixed(abs(clock) * 1e6, 2))\(range(device.clockUncertainty.map { $0 * 1e6 }, 2)) ppm "
            + "\(clock < 0 ? "slow" : "fast") relative to the reference's")
      }
      if let rate = device.rate {
        lines.append(
          "\(indent)\(fixed(rate, 5))\(range(device.rateUncertainty, 5)) ticks a second by the reference's clock"
        )
      }
      if device.clockDrift == nil, device.rate == nil {
        lines.append("\(indent)the rate of its own clock is unknown: record for longer, without a lost link")
      }
      for evidence in device.evidence {
        lines.append(
          "\(indent)from the \(evidence.kind) shared with \(evidence.with): likeness "
            + "\(fixed(evidence.likeness, 2)), \(counted(evidence.places, "place")), "
            + "\(fixed(evidence.residual / 1e6, 2)) ms RMS")
        if evidence.hasPulseTransit {
          lines.append(
            "\(indent)this and its range include the pulse transit time from the heart to the skin, some "
              + "tenths of a second"
          )
        }
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static let unknownWait =
    "its error is unknown: the recording does not show how long its packets waited; record with "
    + "ringtap capture, for two minutes or longer"

  private static func offset(_ late: Double, _ uncertainty: Double?) -> String {
    "\(fixed(abs(late) / 1e6, 2))\(range(uncertainty.map { $0 / 1e6 }, 2)) ms \(late < 0 ? "early" : "late")"
  }

  private static func range(_ half: Double?, _ decimals: Int) -> String {
    half.map { " ± \(fixed($0, decimals))" } ?? ""
  }

  private static func drift(_ device: Alignment.Device) -> String {
    guard let uncertainty = device.driftUncertainty else { return "; too short to determine the drift" }
    let sign = device.drift < 0 ? "−" : "+"
    return ", \(sign)\(fixed(abs(device.drift) / 1e3, 2)) ± \(fixed(uncertainty / 1e3, 2)) ppm"
  }

  private static func fixed(_ number: Double, _ decimals: Int) -> String {
    NumberText.fixed(number, decimals)
  }
}
