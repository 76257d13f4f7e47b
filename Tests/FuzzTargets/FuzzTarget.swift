/// What reads octets that somebody else wrote. Each takes any input, ends, and traps where something is wrong.
///
/// `Tools/fuzz/run` looks for inputs that do harm; `FuzzTests` runs those that are kept in `Tools/fuzz/corpus`.
public enum FuzzTarget: String, CaseIterable, Sendable {
  // Logs.
  case packetLog, compressedLog, decoder, statistics, anonymiser
  // The stack.
  case h4Framer, hciHost, l2capRecombiner, attClient, attServer, gattDiscovery
  // Single packets.
  case attPDU, advertising, management, ringFrame
  // Values of sensors.
  case sensorValue, ringMessages
  // What people write.
  case text

  public func run(_ input: Span<UInt8>) {
    switch self {
    case .packetLog: fuzzPacketLog(input)
    case .compressedLog: fuzzCompressedLog(input)
    case .decoder: fuzzDecoder(input)
    case .statistics: fuzzStatistics(input)
    case .anonymiser: fuzzAnonymiser(input)
    case .h4Framer: fuzzH4Framer(input)
    case .hciHost: fuzzHCIHost(input)
    case .l2capRecombiner: fuzzL2CAPRecombiner(input)
    case .attClient: fuzzATTClient(input)
    case .attServer: fuzzATTServer(input)
    case .gattDiscovery: fuzzGATTDiscovery(input)
    case .attPDU: fuzzATTPDU(input)
    case .advertising: fuzzAdvertising(input)
    case .management: fuzzManagement(input)
    case .ringFrame: fuzzRingFrame(input)
    case .sensorValue: fuzzSensorValue(input)
    case .ringMessages: fuzzRingMessages(input)
    case .text: fuzzText(input)
    }
  }
}
