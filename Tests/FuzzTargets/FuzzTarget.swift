/// Code that reads untrusted bytes. A target accepts any input, and traps if it finds an error.
///
/// `Tools/fuzz/run` searches for harmful inputs; `FuzzTests` runs the inputs stored in `Tools/fuzz/corpus`.
public enum FuzzTarget: String, CaseIterable, Sendable {
  // Logs.
  case packetLog, airLog, compressedLog, logTail, decoder, statistics, anonymiser
  // Times of logs, files that are not logs, and related packets of the air.
  case timeline, foreignFile, advertisingChains
  // The stack.
  case h4Framer, hciHost, l2capRecombiner, attClient, attServer, gattDiscovery, pairing, pairingMeeting
  // The controller's side, replays, and the server.
  case controller, replay, gattServer
  // Single packets.
  case attPDU, hciPDU, securityManagerPDU, advertising, management, ringFrame
  // Values of sensors.
  case sensorValue, ringMessages, ringStory
  // Files that are read back.
  case capture, bondFile, knownDevice, json
  // Text written by users.
  case text, dialogue, configuration
  // Messages from a broker.
  case collector, publisher
  // Clients of a WebSocket.
  case webSocket
  // Commands that users run.
  case logCommand, captureCommand, textCommand

  public func run(_ input: Span<UInt8>) {
    switch self {
    case .packetLog: fuzzPacketLog(input)
    case .airLog: fuzzAirLog(input)
    case .compressedLog: fuzzCompressedLog(input)
    case .logTail: fuzzLogTail(input)
    case .decoder: fuzzDecoder(input)
    case .statistics: fuzzStatistics(input)
    case .anonymiser: fuzzAnonymiser(input)
    case .timeline: fuzzTimeline(input)
    case .foreignFile: fuzzForeignFile(input)
    case .advertisingChains: fuzzAdvertisingChains(input)
    case .h4Framer: fuzzH4Framer(input)
    case .hciHost: fuzzHCIHost(input)
    case .l2capRecombiner: fuzzL2CAPRecombiner(input)
    case .attClient: fuzzATTClient(input)
    case .attServer: fuzzATTServer(input)
    case .gattDiscovery: fuzzGATTDiscovery(input)
    case .pairing: fuzzPairing(input)
    case .pairingMeeting: fuzzPairingMeeting(input)
    case .controller: fuzzController(input)
    case .replay: fuzzReplay(input)
    case .gattServer: fuzzGATTServer(input)
    case .attPDU: fuzzATTPDU(input)
    case .hciPDU: fuzzHCIPDU(input)
    case .securityManagerPDU: fuzzSecurityManagerPDU(input)
    case .advertising: fuzzAdvertising(input)
    case .management: fuzzManagement(input)
    case .ringFrame: fuzzRingFrame(input)
    case .sensorValue: fuzzSensorValue(input)
    case .ringMessages: fuzzRingMessages(input)
    case .ringStory: fuzzRingStory(input)
    case .capture: fuzzCapture(input)
    case .bondFile: fuzzBondFile(input)
    case .knownDevice: fuzzKnownDevice(input)
    case .json: fuzzJSON(input)
    case .text: fuzzText(input)
    case .dialogue: fuzzDialogue(input)
    case .configuration: fuzzConfiguration(input)
    case .collector: fuzzCollector(input)
    case .publisher: fuzzPublisher(input)
    case .webSocket: fuzzWebSocket(input)
    case .logCommand, .captureCommand, .textCommand: fuzzCommand(command(input))
    }
  }
}
