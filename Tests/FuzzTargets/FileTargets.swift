import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CaptureTools
import Dialogues
import Foundation
import Glibc
import JSONText
import SensorSessions

/// A text of dialogues and, after a zero byte, PDUs that a client sends.
func fuzzDialogue(_ input: Span<UInt8>) {
  var end = 0
  while end < input.count, input[end] != 0 { end += 1 }
  let text = String(decoding: array(input.extracting(..<end)), as: UTF8.self)
  do throws(ATTDialogueError) {
    for dialogue in try ATTDialogueFile(parsing: text).dialogues { play(dialogue, input.extracting(end...)) }
  } catch {
    checkText(Array("\(error)".utf8))
  }
}

private func play(_ dialogue: ATTDialogue, _ rest: Span<UInt8>) {
  var player = DialoguePlayer(dialogue)
  _ = player.begin()
  forEachPacket(rest.isEmpty ? rest : rest.extracting(1...)) { _, pdu in
    let wasLost = player.mismatch != nil
    for said in player.receive(pdu) where said.layer == .attribute {
      precondition(said.octets.count <= 517, "an answer too long")
    }
    precondition(!wasLost || player.mismatch != nil, "a client that went astray came back")
  }
  player.end()
  precondition(player.isComplete == (player.mismatch == nil))
}

/// Any JSON. An input that our parser accepts must be accepted by another parser too.
func fuzzJSON(_ input: Span<UInt8>) {
  let octets = array(input)
  guard let document = try? JSONDocument(octets) else { return }
  // A lone surrogate is not a valid character, and we keep numbers of any length as they are.
  let foundation = try? JSONSerialization.jsonObject(with: Data(octets), options: .fragmentsAllowed)
  if foundation == nil, String(validating: octets, as: UTF8.self) != nil, !octets.contains(0x5C) {
    let isNumber = octets.contains { (0x30...0x39).contains($0) }
    precondition(isNumber, "no other parser reads it")
  }
  _ = (document.text, document.flag, document.array, document.integer(Int64.self), document["a"])
}

private let captureFolder = FuzzFolder("capture")
private let outputFolder = FuzzFolder("output")

/// Names of files that a recorder writes in a folder.
private let captureFiles = [
  "session.json", "columns.json", "ppg.csv", "accelerometer.csv", "spo2.csv", "samples.csv", "heart_rate.csv",
  "rr_intervals.csv", "temperature.csv", "ecg.csv", "polar_7.csv", "other.csv",
]

/// Columns of both tables of arrays.
private let captureColumns = [
  "time_ns", "rr_1024ths", "rr_ms", "state", "temperature_celsius", "skin_celsius", "quality",
  "heart_rate_bpm", "heat_strain_index",
]

/// Writes a folder like that of a capture. Each packet is a file: if bit 7 of its first byte is set, a column
/// of a table of arrays; otherwise the other bits select one of the names.
func writeCapture(_ packets: Span<UInt8>, in folder: FuzzFolder) {
  forEachPacket(packets) { kind, octets in
    if kind & 0x80 == 0 {
      folder.write(octets, captureFiles[Int(kind) % captureFiles.count])
    } else {
      let table = ["rr_intervals", "temperature"][Int(kind >> 4 & 1)]
      mkdir("\(folder.path)/\(table)", 0o700)
      folder.write(octets, "\(table)/\(captureColumns[Int(kind & 15) % captureColumns.count]).npy")
    }
  }
}

/// A capture, converted to each format and analysed.
func fuzzCapture(_ input: Span<UInt8>) {
  guard !input.isEmpty else { return }
  captureFolder.empty()
  outputFolder.empty()
  writeCapture(input.extracting(1...), in: captureFolder)
  let formats = ConversionFormat.allCases
  let format = formats[Int(input[0]) % formats.count]
  let output = outputFolder.path + "/converted"
  if let report = try? CaptureConversion.run(
    captureFolder.path, to: format, output: output, progress: { _ in })
  {
    // Text output can be read again, each row of it.
    guard format == .csv || format == .npy, report.problems.isEmpty, report.leftOut.isEmpty else { return }
    let again = try? CaptureConversion.run(
      output, to: .ndjson, output: outputFolder.path + "/again", progress: { _ in })
    precondition(again?.problems.isEmpty ?? true, "a table that was written is not read")
    precondition(again.map { $0.tables.map(\.rows) == report.tables.map(\.rows) } ?? false, "rows are gone")
  }
  if input[0] & 0x80 != 0 { _ = try? CaptureAnalysis.run(captureFolder.path, output: nil) }
}

private let bondFolder = FuzzFolder("bonds")

/// A bond file. If it can be read, it must be written so that it can be read again, and only by its owner.
func fuzzBondFile(_ input: Span<UInt8>) {
  bondFolder.empty()
  bondFolder.write(input, "70-CB-0D-00-A1-B2-public.bond")
  let bonds = BondFiles(in: bondFolder.path) { checkText(Array($0.utf8)) }.bonds()
  guard let bond = bonds.first else { return }
  precondition(bonds.count == 1)
  bondFolder.empty()
  let files = BondFiles(in: bondFolder.path) { _ in }
  files.keep(bond)
  let counter = files.takeSignCounter(of: bond.device)
  let again = BondFiles(in: bondFolder.path) { _ in }.bonds()
  precondition(again == files.bonds() && again.count == 1, "the bond is another one")
  precondition(counter == nil || again[0].bond.localSignCounter > counter ?? .max, "a counter twice")
  for name in Files.names(in: bondFolder.path) where name.hasSuffix(".bond") {
    var info = stat()
    precondition(stat("\(bondFolder.path)/\(name)", &info) == 0 && info.st_mode & 0o777 == 0o600)
  }
}

private let deviceFolder = FuzzFolder("devices")

/// A known device's file. If it can be read, it must be printable, and unchanged when it is written and read
/// again.
func fuzzKnownDevice(_ input: Span<UInt8>) {
  let name = "70-CB-0D-00-A1-B2-public.json"
  deviceFolder.empty()
  deviceFolder.write(input, name)
  let devices = KnownDevices(in: deviceFolder.path) { checkText(Array($0.utf8)) }.all()
  guard let device = devices.first else { return }
  var line = JSONLine()
  device.encode(into: &line)
  precondition(checkJSON(line.octets) == 1)
  deviceFolder.empty()
  let octets = line.octets
  deviceFolder.write(octets.span, name)
  let again = KnownDevices(in: deviceFolder.path) { fatalError($0) }.all()
  precondition(again == devices, "the device is another one")
}
