package import ArgumentParser
package import BLEHost
package import BLEWire
import Recording

/// Link parameters to request, on every command that connects.
package struct LinkOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      "Connection interval, or a range such as 7.5-15; multiples of 1.25, 7.5 … 4000. The kernel's default is 30-50.",
      valueName: "ms"), transform: Self.interval)
  package var interval: ClosedRange<UInt16>?

  @Option(help: "Connection events that the device may skip, 0 … 499.", in: Self.latencies)
  package var latency: UInt16?

  @Option(
    help: ArgumentHelp(
      "Supervision timeout: how long the link may be silent before it is lost, 100 … 32000.", valueName: "ms"),
    in: Self.supervisionTimeouts)
  package var supervisionTimeout: UInt16?

  @Option(
    help: "The PHY in both directions: 1m, 2m or coded.", completion: .list(PHY.allCases.map(\.rawValue)),
    transform: Words.parse)
  package var phy: PHY?

  @Option(
    help: ArgumentHelp("Maximum number of bytes in one data packet, 27 … 251.", valueName: "octets"),
    in: Self.dataLengths)
  package var dataLength: UInt16?

  package enum PHY: String, CaseIterable, ExpressibleByArgument {
    case le1M = "1m"
    case le2M = "2m"
    case coded

    package var phy: LEPHY {
      switch self {
      case .le1M: .le1M
      case .le2M: .le2M
      case .coded: .leCoded
      }
    }
  }

  package func validate() throws { _ = try request() }

  package func request() throws -> LinkRequest {
    var request = LinkRequest()
    request.interval = interval
    request.latency = latency
    request.supervisionTimeout = supervisionTimeout.map(Self.units(ofMilliseconds:))
    request.phy = phy?.phy
    request.dataLength = dataLength
    if let fault = request.fault { throw ValidationError(fault) }
    return request
  }

  // MARK: Values

  package static let latencies = NumberRange<UInt16>(0...499)
  /// Supervision timeouts in milliseconds.
  package static let supervisionTimeouts = NumberRange<UInt16>(100...32_000, "ms")
  package static let dataLengths = NumberRange<UInt16>(27...251, "octets")

  /// Converts a supervision timeout to units of 10 ms, rounded up.
  package static func units(ofMilliseconds timeout: UInt16) -> UInt16 { (timeout + 9) / 10 }

  /// Parses a connection interval.
  ///
  /// - Parameter text: milliseconds, one number or two separated by a hyphen.
  /// - Returns: the interval in units of 1.25 ms.
  /// - Throws: `ValidationError` with the range. The argument parser puts the option's name and the value
  ///   before this message.
  package static func interval(_ text: String) throws -> ClosedRange<UInt16> {
    let units = text.split(separator: "-", omittingEmptySubsequences: false).map { part in
      Double(part).flatMap { UInt16(exactly: ($0 / 1.25).rounded()) }
    }
    guard (1...2).contains(units.count), let least = units[0], let most = units[units.count - 1],
      least <= most, LinkParameterRange.intervals.contains(least), LinkParameterRange.intervals.contains(most)
    else { throw ValidationError("it must be 7.5 to 4000 ms, such as 30 or 7.5-15") }
    return least...most
  }
}

/// Text about a link for the user.
package enum LinkText {
  /// Returns text about the current link parameters; `nil` if no parameter is known.
  package static func inForce(_ state: LinkState) -> String? {
    var parts: [String] = []
    if let timing = state.timing {
      parts.append("interval \(number(timing.intervalMilliseconds)) ms")
      parts.append("latency \(timing.latency)")
      parts.append("supervision timeout \(timing.supervisionTimeoutMilliseconds) ms")
    }
    if let transmit = state.transmitPHY, let receive = state.receivePHY {
      parts.append(transmit == receive ? "PHY \(transmit.name)" : "PHY \(transmit.name)/\(receive.name)")
    }
    if let transmit = state.transmitOctets, let receive = state.receiveOctets {
      parts.append("data length \(transmit)/\(receive)")
    }
    if let security = state.security { parts.append(security.text) }
    return parts.isEmpty ? nil : parts.joined(separator: ", ")
  }

  /// Returns a message about responses that match no request; `nil` if there were no such responses.
  package static func strays(_ count: Int) -> String? {
    switch count {
    case 0: nil
    case 1: "the device sent a response that belongs to no request; it was ignored"
    default: "the device sent \(counted(count, "response")) that belong to no request; they were ignored"
    }
  }

  /// Returns a message about values received without a subscription; `nil` if there were no such values.
  ///
  /// - Parameter count: number of values received without a subscription.
  package static func unsubscribed(_ count: Int) -> String? {
    switch count {
    case 0: nil
    case 1: "1 value of a handle without a subscription; it was ignored"
    default: "\(counted(count, "value")) of handles without a subscription; they were ignored"
    }
  }

  /// Returns one line for each refused change of a link parameter.
  package static func refusals(_ changes: [LinkChange]) -> [String] {
    changes.compactMap { change in
      guard case .refused(let part, let error) = change.value else { return nil }
      return "\(name(part)) was not changed: \(error)"
    }
  }

  private static func name(_ part: LinkRequest.Part) -> String {
    switch part {
    case .timing: "the connection interval"
    case .phy: "the PHY"
    case .dataLength: "the data length"
    }
  }

  private static func number(_ value: Double) -> String {
    value == value.rounded() ? String(Int(value)) : String(value)
  }
}
