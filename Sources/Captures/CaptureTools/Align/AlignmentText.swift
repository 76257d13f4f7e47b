import Recording

/// Describes an alignment for people, one fact per line.
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
            + "\(fixed(evidence.likeness, 2)), \(evidence.places) places, "
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
