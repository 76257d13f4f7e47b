@testable import BLEEmulation
import BLEHost
import BLELinux
@testable import BLEPacketLog
import BLEPeripheral
@testable import BLESecurity
@testable import BLEStack
import BLEWire
@testable import CaptureTools
import ColmiRing
import CommandKit
@testable import Daemon
@testable import Fleet
import Foundation
@testable import JSONText
@testable import Outlets
import Physiology
import Recording
@testable import SensorSessions
import TestKit
import Testing

/// What people read of each error of each type: sentences, no Swift.
@Suite struct ErrorTextTests {
  private static let system = SystemError(call: "open walk/samples.csv", number: ENOENT)
  private static let wire = WireError(.att, offset: 3, .truncated(needed: 5, available: 3))
  private static let address = DeviceAddress("70:CB:0D:00:A1:B2", type: .public)!
  private static let adapter = AdapterInfo(index: 0, address: address, isUp: true, bus: 1)
  private static let opcode = HCIOpcode(rawValue: 0x200C)
  private static let status = HCIStatus(rawValue: 0x0C)
  private static let refused = ErrorResponse(
    request: .readRequest, handle: AttributeHandle(0x12), code: .insufficientAuthentication)

  /// Examples of each type, by its file and name: at least one for each case of an enumeration.
  private static let examples: [String: [any Error]] = {
    var examples: [String: [any Error]] = [:]
    func add<E: Error>(_ type: String, _ errors: [E]) { examples[type] = errors }
    add(
      "HostError.swift HostError",
      [
        HostError.noBluetooth, .noAdapter("hci1", present: [adapter]), .noAdapter(nil, present: []),
        .severalAdapters(adapter.address, [adapter, adapter]),
        .adapterDown("hci0"), .notPermitted(action: "scanning", capability: "CAP_NET_RAW"),
        .commandRefused(opcode, status), .commandTimedOut(opcode),
        .managementRefused(ManagementOpcode(rawValue: 0x23), ManagementStatus(rawValue: 0x0A)),
        .managementTimedOut(ManagementOpcode(rawValue: 0x23)), .malformedReply(wire), .scanBusy(holder: nil),
        .noAnswer(address, seconds: 20), .startTimedOut(address, seconds: 20),
        .channelBusy(address, holder: nil),
        .connectFailed(address, system), .linkFailed(address, status), .pairing(address, .timedOut),
        .notEncrypted(address, nil), .notEncrypted(address, status), .adapterBusy("hci0", holder: nil),
        .notFound("ring", seconds: 20), .unsuitable("the log has no links"), .gatt(.refused(refused)),
        .system(system), .controller("hci-socket:0", .transportLost),
      ])
    // `HostError` has the text.
    add(
      "HCIHostEvent.swift HCIHostFailure",
      [
        HCIHostFailure.startUpRefused(opcode, status), .commandTimedOut(opcode), .hardwareError(1),
        .unaskedReset,
        .restarted, .notLowEnergy, .noDataBuffers, .dataBuffersTooSmall(byteCount: 20), .transportLost,
      ].map { HostError.controller("hci-socket:0", $0) })
    add("TransportSpecification.swift ParseError", [thrown { try TransportSpecification("usb:0") }])
    add("VHCI.swift VHCIError", [VHCIError.noDevice, .notPermitted, .system(system)])
    add("SystemError.swift SystemError", [system, SystemError(call: "connect", number: 9999)])
    add(
      "Pairing.swift PairingError",
      [
        PairingError.refused(.pairingNotSupported), .refused(.unspecifiedReason),
        .failed(.confirmValueFailed),
        .failed(.authenticationRequirements), .failed(.unspecifiedReason), .timedOut, .notEncrypted(status),
        .identityRefused(address), .weakerThanBond, .notSecureConnections, .tooSoon, .linkLost, .cancelled,
      ])
    add(
      "GATTError.swift GATTError",
      [
        GATTError.refused(refused), .malformed(wire), .timedOut(.readRequest, seconds: 30),
        .closed(.closedLocally),
        .closed(.linkLost(.silence)), .closed(.linkLost(.closedByPeer)), .closed(.linkLost(.controllerReset)),
        .closed(.linkLost(.unknown)), .closed(.transactionTimeout), .closed(.encryptionLost),
        .closed(.silent(seconds: 8)), .closed(.answersNotTaken(64)), .cancelled,
        .valueTooLong(byteCount: 600, limit: 512), .writeNotVerified(AttributeHandle(0x12)), .cannotSign,
        .notSupported(AttributeHandle(0x12), needs: [.notify, .indicate]),
      ])
    add(
      "GATTServerEvent.swift GATTServerError",
      [
        GATTServerError.notSubscribed, .disconnected, .notConfirmed, .cancelled, .closed,
      ])
    add("P256KeyPair.swift MissingLibcrypto", [MissingLibcrypto(problem: "libcrypto.so.3: cannot open")])
    add(
      "WireError.swift WireError",
      [
        wire, WireError(.att, offset: 0, .lengthMismatch(claimed: 1, available: 2)),
        WireError(.att, offset: 0, .invalidValue(7)),
        WireError(.ring, offset: 0, .checksum(expected: 1, found: 2)),
        WireError(.att, offset: 0, .unexpectedOpcode(4)),
      ] + layers.map { WireError($0, offset: 3, .invalidValue(7)) })
    add(
      "CaptureAnalysis.swift AnalysisError",
      [
        AnalysisError.noTables(.noCapture(directory: "walk", why: "it has no tables")),
        .noRows(directory: "walk", problems: ["samples.csv has no rows"]), .output(system),
      ])
    add(
      "ReportDocument.swift ReportError",
      [
        ReportError.nothing("walk", "it has no tables"), .unreadable("walk is not a packet log"),
        .interrupted,
        .noStream("ppg", ["ecg", "acc"]), .noStream("ppg", []), .outside("--from", 0...60_000_000_000),
        .noStretch(from: "10", to: "5"),
      ])
    add(
      "LogImport.swift Failure",
      [
        LogImport.Failure.unreadable(.interrupted), .outputExists("walk"),
        .noReadings("the log has no readings"),
        .output(system), .interrupted,
      ])
    add(
      "TableReader.swift Fault",
      [
        TableLines.Fault.cutOff, TableLines.Fault.tooLong, TableLines.Fault.zeros(atEnd: true),
        TableLines.Fault.zeros(atEnd: false), TableLines.Fault.input(.damaged(offset: 9)),
      ])
    add(
      "CaptureConversion.swift ConversionError",
      [
        ConversionError.noCapture(directory: "walk", why: "it has no tables"),
        .oldFormat(directory: "walk", tables: ["ppg.csv"], log: nil),
        .oldFormat(directory: "walk", tables: ["ppg.csv"], log: "walk/packets.btsnoop"),
        .outputExists("walk.edf"),
        .unsuitable("walk has no signals"), .output(system),
      ])
    add(
      "LogRecording.swift LogFileError",
      [
        LogFileError.exists("log.btsnoop"), .foreign("log.btsnoop", .pcapng),
        .damaged("log.btsnoop", offset: 16),
        .host(.noBluetooth), .system(system),
      ])
    add(
      "SessionDocument.swift Problem",
      [
        SessionDocument.Problem.file(system), .content(JSONDocument.Failure(offset: 3)),
        .form("rows is not a count"),
        .laterFormat(9),
      ])
    add("LogReader.swift Problem", [thrown { try LogReader(regularFile: "/nowhere/log.btsnoop") }])
    add(
      "CompressedInput.swift Problem",
      [
        CompressedInput.Problem.damaged(offset: 1), .truncated(offset: 1), .system(system),
      ])
    add("Console.swift WriteError", [Console.WriteError.readerGone, .failed(system)])
    add("Console.swift Failure", [Failure("open walk: No such file or directory"), Failure(system)])
    add(
      "DaemonConfiguration.swift Invalid",
      [
        DaemonConfiguration.Invalid(
          path: "ringtap.json", problems: [.init(line: 3, text: "'devises' is unknown")])
      ])
    add("ConfigurationReader.swift NoJSON", [Failure(thrown { try ConfigurationReader([0x7B]) }.text)])
    add("RingValues.swift RingValueError", [RingValueError.dateOutOfRange, .timeOutOfRange, .phoneName])
    add(
      "RingBigData.swift RingBigDataError",
      [
        RingBigDataError.checksum(RingBigData(id: 0x2A, payload: [1])), .tooLong(id: 0x2A, byteCount: 70_000),
        .interrupted(id: 0x2A, received: 1, expected: 20), .interrupted(id: nil, received: 2, expected: nil),
        .excess(byteCount: 1), .notBigData(octet: 0x0A), .notBigData(octet: nil),
        .length(claimed: 1, available: 3),
      ])
    add(
      "RingLogs.swift RingLogError",
      [
        RingLogError.frameCount(1), .interval(0), .index(9, count: 4), .otherDay(RingDayLog.Day.daysAgo(1)),
        .recordCount(1, announced: 2),
      ])
    add("RingTranscript.swift Failure", [RingTranscript.Failure.noPackets, .severalFrames])
    // `KnownDevices` warns with this text.
    add("KnownDevice.swift Unreadable", [Failure("damaged"), Failure("of a later version")])
    add(
      "RingConversation.swift RingError",
      [
        RingError.host(.noBluetooth), .refused(opcode: 0x50, code: 0xEE), .noReply(to: "battery", seconds: 5),
        .lacking("temperature sensor"), .noBigData, .senseless("a day of 25 hours"), .interrupted,
      ])
    add("JSONDocument.swift Failure", [JSONDocument.Failure(offset: 3)])
    add(
      "SharedMotion.swift Refusal",
      [
        SharedEvidence.Refusal.nothing(.movement), .nothing(.beats), .unlike(.movement), .unlike(.beats),
        .ambiguous(.movement, seconds: 2), .ambiguous(.beats, seconds: 2), .beyond(.beats, seconds: 2),
        .tooFew(.beats),
      ])
    add(
      "Variability.swift Refusal",
      [
        Variability.Refusal.tooFewIntervals(count: 1, needed: 2), .tooShort(seconds: 1, needed: 30),
        .tooManyCorrected(share: 0.3), .fewAccepted(share: 0.3), .irregular(share: 0.3), .leaps(count: 1),
        .leaps(count: 2), .gaps(share: 0.3),
      ])
    add("ECGMeter.swift Refusal", [ECGMeter.Refusal.tooSlow(rate: 25), .tooFast(rate: 1e6)])
    add("PulseMeter.swift Refusal", [PulseMeter.Refusal.tooSlow(rate: 1), .tooFast(rate: 1e6)])
    add("Batch.swift Refusal", [Batch.Refusal("the topic is not that of a publisher")])
    add("BrokerAddress.swift ParseError", [thrown { try BrokerAddress("http://broker") }])
    add(
      "CollectedTable.swift CollectProblem",
      [CollectProblem.refused(Batch.Refusal("no rows")), .system(system)])
    // `BrokerAddress` has the text.
    add(
      "MQTTClient.swift MQTTError",
      [
        MQTTError.noLibrary("libmosquitto.so.1: cannot open"), .noAddress, .system(system),
        .tls("certificate expired"),
        .tls("host name verification failed"), .refused(reason: 135, name: "Not authorized"),
        .refused(reason: 142, name: "Session taken over"), .refused(reason: 132, name: "Unsupported version"),
        .refused(reason: 151, name: "Quota exceeded"), .other("a protocol error"),
      ].compactMap { error in
        (try? BrokerAddress("mqtt://broker.local"))?.problem(error, certificates: nil)
      })
    add(
      "PublishProblem.swift PublishProblem",
      [
        PublishProblem.broker("the broker is unknown"), .final("another process took over"),
        .oldBroker("no MQTT 5"),
        .system(system), .damaged("walk/publish.json"), .otherCapture("walk/ppg.csv"),
        .noTable("walk/ppg.csv"),
        .noCapture("walk"),
      ])
    add("StreamTarget.swift ParseError", [thrown { try StreamTarget("udp:1") }])
    add("WebRequest.swift WebRefusal", [thrown { try WebRequest(head: []) }])
    add("LSLLibrary.swift NoLabStreaming", [NoLabStreaming(reason: "liblsl.so: cannot open")])
    add(
      "HTTPEndpoint.swift NoInfluxWriter",
      [NoInfluxWriter.noCurl("libcurl.so.4: cannot open"), .system(system)])
    add("InfluxPlan.swift ParseError", [InfluxPlan.ParseError(description: "'udp://x' is not a URL")])
    // The text of these two is a member, which the error that people see contains.
    add(
      "DeviceFile.swift Fault", [DeviceFileError(line: 1, AttributeText.Fault("handles must rise").reason)]
    )
    add("Wearer.swift Refusal", [thrown { try VirtualPeripheralSpecification(parsing: "ring,bpm=9000") }])
    add(
      "DeviceFile.swift DeviceFileError",
      [
        DeviceFileError(line: 0, "there is no `device NAME` in it"),
        thrown { try DeviceFile(parsing: "device a\nx") },
      ])
    add(
      "VirtualPeripheralSpecification.swift ParseError",
      [
        thrown { try VirtualPeripheralSpecification(parsing: "rong") }
      ])
    return examples
  }()

  /// Types whose errors leave neither their file nor this program's code: each is caught by its callers, which
  /// write a text or answer a peer.
  private static let caught: Set<String> = [
    // Becomes an Error Response to the peer.
    "ATTServer.swift Refusal"
  ]

  /// Returns the error that a call throws.
  private static func thrown<Value: ~Copyable>(_ body: () throws -> Value) -> any Error {
    do { _ = try body() } catch { return error }
    return Failure("(no error)")
  }

  // MARK: The types of the source tree

  struct Declared: CustomStringConvertible {
    let file: String
    let name: String
    let isPrivate: Bool
    /// Number of cases of an enumeration.
    let caseCount: Int
    var key: String { "\(file) \(name)" }
    var description: String { key }
  }

  /// All types that conform to `Error`.
  private static func declared() throws -> [Declared] {
    let root = Place.root + "/Sources"
    let files = try #require(FileManager.default.enumerator(atPath: root)).compactMap { $0 as? String }
    let pattern = /^\s*((?:\w+ )*)(?:struct|enum|class|actor|extension) ([\w.]+)(?:<[^>]*>)?:([^{]*)\{(.*)$/
    var found: [Declared] = []
    for file in files where file.hasSuffix(".swift") {
      let text = try String(contentsOfFile: "\(root)/\(file)", encoding: .utf8)
      let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
      for (index, line) in lines.enumerated() {
        guard let match = line.wholeMatch(of: pattern),
          match.3.split(whereSeparator: { ",& ".contains($0) }).contains("Error")
        else { continue }
        let indent = line.prefix { $0 == " " }
        let body = lines[(index + 1)...].prefix { !$0.hasPrefix(indent + "}") }
        let cases = body.filter { $0.hasPrefix(indent + "  case ") }
        let count = cases.reduce(0) { count, line in
          count + 1 + line.replacing(/\([^)]*\)/, with: "").count { $0 == "," }
        }
        found.append(
          Declared(
            file: String(file.split(separator: "/").last ?? ""), name: String(match.2),
            isPrivate: match.1.contains("private"), caseCount: match.4.contains("}") ? 0 : count))
      }
    }
    return found
  }

  /// All formats that are decoded.
  private static let layers = (0...UInt8.max).compactMap { WireError.Layer(rawValue: $0) }

  /// A decoding error names its format as people do, and counts bytes.
  @Test(
    arguments: [
      (
        WireError(.att, offset: 3, .truncated(needed: 5, available: 3)),
        "ATT at byte 3: 5 bytes are needed, 3 are there"
      ),
      (
        WireError(.battery, offset: 0, .truncated(needed: 1, available: 0)),
        "battery level at byte 0: 1 byte is needed, 0 are there"
      ),
      (
        WireError(.l2cap, offset: 0, .lengthMismatch(claimed: 1, available: 2)),
        "L2CAP at byte 0: the length field says 1 byte, 2 are there"
      ),
      (
        WireError(.acl, offset: 2, .lengthMismatch(claimed: 9, available: 1)),
        "ACL data at byte 2: the length field says 9 bytes, 1 is there"
      ),
      (
        WireError(.coreTemperature, offset: 3, .invalidValue(0x2A)),
        "core temperature at byte 3: the value 0x2a is not valid"
      ),
      (
        WireError(.ring, offset: 15, .checksum(expected: 1, found: 0xA2)),
        "ring frame at byte 15: the checksum is 0xa2 instead of 0x01"
      ),
      (WireError(.smp, offset: 0, .unexpectedOpcode(4)), "SMP at byte 0: the opcode 0x04 is not expected"),
    ])
  func namesTheFormat(_ error: WireError, _ text: String) { #expect("\(error)" == text) }

  /// No two formats share a name.
  @Test func eachFormatHasItsName() {
    let names = Set(Self.layers.map { "\(WireError($0, offset: 0, .invalidValue(0)))" })
    #expect(Self.layers.count == 25)
    #expect(names.count == Self.layers.count)
  }

  @Test func eachTypeHasExamples() throws {
    let declared = try Self.declared()
    #expect(declared.count > 50)
    let visible = declared.filter { !$0.isPrivate }.map(\.key)
    let known = Set(Self.examples.keys).union(Self.caught)
    #expect(Set(visible) == known, "\(Set(visible).symmetricDifference(known).sorted())")
    for type in declared {
      guard let examples = Self.examples[type.key] else { continue }
      #expect(examples.count >= max(1, type.caseCount), "\(type): an example is missing")
      #expect(!examples.contains { "\($0)" == "(no error)" }, "\(type)")
    }
  }

  @Test(arguments: examples.keys.sorted()) func areSentences(_ type: String) throws {
    for error in Self.examples[type] ?? [] {
      for text in Set(["\(error)", ErrorGuide.text(of: error), Failure(error).message, "\(Failure(error))"]) {
        let faults = Self.faults(of: text)
        #expect(faults.isEmpty, "\(type): \(text): \(faults)")
      }
    }
  }

  /// What of a text is Swift, or no sentence.
  private static func faults(of text: String) -> [String] {
    // Commands and names that users type are in backticks.
    // A list of transports has their colons.
    let prose = text.replacing(/`[^`]*`/, with: "X").replacing(
      /[a-z-]+:, (?:[a-z-]+:, )+[a-z-]+:$/, with: "X")
    let patterns: [(String, Regex<Substring>)] = [
      ("a member with a label", #/\w\(\w+: /#), ("an optional", #/Optional\(|\bnil\b|\.some\b|\.none\b/#),
      ("a call or a case", #/\b[a-z]\w*\([^)]/#), ("a case", #/(?:^|[\s(])\.[a-z]\w+/#),
      ("a name of Swift", #/\b[a-z]+[A-Z][A-Za-z]*\b/#),
      ("a type", #/\b(?:Swift|BLE[A-Z]\w+|CaptureTools|Recording|CommandKit|Fleet|JSONText)\.[A-Z]/#),
      ("a type", #/\b[A-Z][a-z]+[A-Z]\w*(?:Error|Failure|Problem|Refusal)\b/#), ("an empty list", #/\[\]/#),
      ("punctuation twice", #/[,;:]\s*[,;:.]|\.\.+$|\s[,;.:]\s|,,|;;/#), ("two spaces", #/\S {2,}\S/#),
      ("an end without an end", #/[,;:(\s]$/#), ("a start", #/^[\s,;:.]/#),
      ("error twice", #/(?i)\berror:? error\b/#),
    ]
    return patterns.filter { prose.contains($0.1) }.map(\.0) + (text.isEmpty ? ["empty"] : [])
  }
}

extension Error {
  /// The text of `ConfigurationReader.NoJSON`.
  fileprivate var text: String { (self as? ConfigurationReader.NoJSON)?.text ?? "(no error)" }
}
