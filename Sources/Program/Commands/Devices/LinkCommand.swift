import ArgumentParser
import BLEHost
import BLEStack
import BLEWire
import CommandKit
import JSONText
import Recording

/// The command `ringtap link ADDRESS`.
struct LinkCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "link",
    abstract: "Show a link's RSSI, peer version and parameters.",
    discussion: """
      Connects, queries the controller and the peer's link layer, and disconnects. With options such as \
      --interval and --phy it shows which parameters a device accepts.

      EXAMPLES
        ringtap link 70:CB:0D:00:A1:B2
        ringtap link 70:CB:0D:00:A1:B2 --interval 7.5 --phy 2m --data-length 251 \\
          --json
            one object: rssi, version, company, subversion, features
            (hexadecimal), intervalMs, latency, supervisionTimeoutMs,
            transmitPhy, receivePhy, transmitDataLength, receiveDataLength
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2.") var address: String
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
    let address = try device.parse(address)
    let device = device
    let (facts, state) = try await device.withLink(to: address, links: .max) { adapter, connection in
      let facts = try await device.answering(address) {
        try await failing { () async throws(HostError) in try await adapter.facts(of: connection) }
      }
      return (facts, await connection.link)
    }
    if json {
      try Console.json { line in
        if let rssi = facts.rssi { line.member("rssi", rssi) }
        if let version = facts.version {
          line.member("version", version.version)
          line.member("company", version.company)
          line.member("subversion", version.subversion)
        }
        if let features = facts.features { line.member("features", "0x" + String(features.bits, radix: 16)) }
        line.members(of: state)
      }
    } else {
      for text in lines(facts, state) { try Console.print(text) }
    }
  }

  private func lines(_ facts: LinkFacts, _ state: LinkState) -> [String] {
    var lines = ["signal    \(facts.rssi.map { "\($0) dBm" } ?? "unknown")"]
    if let version = facts.version {
      lines.append(
        "peer      link layer \(version.versionName), company \(version.company.handleText), "
          + "subversion \(version.subversion.handleText)")
    }
    if let features = facts.features {
      lines.append("features  0x\(String(features.bits, radix: 16)): \(features.text)")
    }
    let unknown = "unknown: needs CAP_NET_RAW and a new link"
    lines.append("link      \(LinkText.inForce(state) ?? unknown)")
    return lines
  }
}

extension LinkLayerVersion {
  /// The version of the link layer. Assigned Numbers, 2.1.
  fileprivate var versionName: String {
    switch version {
    case 6: "4.0"
    case 7: "4.1"
    case 8: "4.2"
    case 9...13: "5.\(version - 9)"
    case 14: "6.0"
    default: "version \(version)"
    }
  }
}

extension LEFeatures {
  fileprivate var text: String {
    var names: [String] = []
    if hasConnectionParametersRequest { names.append("parameter requests") }
    if hasDataPacketLengthExtension { names.append("long data packets") }
    if hasPHY2M { names.append("2M PHY") }
    if hasPHYCoded { names.append("coded PHY") }
    return names.isEmpty ? "none that matter to ringtap" : names.joined(separator: ", ")
  }
}
