import BLELinux
import BLEPacketLog
import BLEWire
import Glibc
import Recording

/// Records and error of a log that is read in pieces of `chunk` bytes.
private struct LogReading: Equatable {
  var records: [StoredPacketRecord] = []
  var error: WireError?

  init(_ log: Span<UInt8>, chunk: Int = .max) {
    var reader = PacketLogReader()
    do throws(WireError) {
      var offset = 0
      while offset < log.count {
        let end = offset + min(chunk, log.count - offset)
        try reader.read(log.extracting(offset..<end)) { records.append(StoredPacketRecord(copying: $0)) }
        offset = end
      }
      try reader.finish()
    } catch {
      self.error = error
    }
    precondition(reader.recordCount == records.count)
  }
}

private let writtenFormats: [PacketLogWriter.Format] = [
  .btsnoop(.unencapsulated), .btsnoop(.h4), .btsnoop(.monitor), .pcapng(.h4WithDirection),
  .pcapng(.linuxMonitor), .pcap(.h4), .pcap(.linuxMonitor),
]

/// A log in any format. The size of the pieces must make no difference, and written logs must be readable.
func fuzzPacketLog(_ input: Span<UInt8>) {
  let whole = LogReading(input)
  precondition(LogReading(input, chunk: 1 + input.count % 23) == whole, "pieces change the log")
  for format in writtenFormats {
    var writer = PacketLogWriter(format)
    var octets: [UInt8] = []
    writer.start(into: &octets)
    for record in whole.records { record.withRecord { writer.append($0, to: &octets) } }
    writer.finish(into: &octets)
    let again = LogReading(octets.span)
    precondition(again.error == nil, "a log that was written is not read")
    precondition(again.records.count == writer.recordCount)
    precondition(writer.recordCount + writer.leftOut == whole.records.count)
    guard writer.leftOut == 0 else { continue }
    for (old, new) in zip(whole.records, again.records) {
      precondition(old.packet == new.packet, "a packet is another one")
      // In the monitor's format, packets of unknown types are notes.
      let isKnown = (1...5).contains(old.header.type?.rawValue ?? 0)
      precondition(old.header.type == new.header.type || !isKnown, "a packet is of another type")
    }
  }
}

/// A file, compressed or not. Decompression must end and return pieces of the promised size.
func fuzzCompressedLog(_ input: Span<UInt8>) {
  guard let file = tmpfile() else { fatalError("no temporary file") }
  defer { fclose(file) }
  let octets = array(input)
  let written = octets.withUnsafeBytes { fwrite($0.baseAddress, 1, $0.count, file) }
  precondition(written == octets.count && fflush(file) == 0)
  var reader = PacketLogReader()
  do {
    var compressed = try CompressedInput(path: "/proc/self/fd/\(fileno(file))")
    // Maximum compression: blocks of four bytes for 128 KiB of the same byte. RFC 8878, 3.1.1.2.
    var left = (input.count / 4 + 1) << 17
    while true {
      let piece = try compressed.next()
      precondition(piece.count <= CompressedInput.pieceByteCount && piece.count <= left)
      if piece.isEmpty { break }
      left -= piece.count
      try reader.read(piece.span) { _ in }
    }
    try reader.finish()
  } catch is SystemError {
    fatalError("the file cannot be read")
  } catch {}
}

private let tailFolder = FuzzFolder("tail")

/// Appends to a log, pcapng if the first byte is odd, otherwise btsnoop. Complete records must stay complete;
/// only the rest may be removed.
func fuzzLogTail(_ input: Span<UInt8>) {
  guard !input.isEmpty else { return }
  let (path, log) = (tailFolder.path + "/log", input.extracting(1...))
  let format: CaptureLogFormat = input[0] & 1 == 1 ? .pcapng : .btsnoop
  tailFolder.write(log, "log")
  do throws(LogFileError) {
    let tail = try LogTail.of(path, format)
    precondition(tail.byteCount + tail.tornByteCount == log.count, "octets are counted twice, or not at all")
    tailFolder.write(log.extracting(..<tail.byteCount), "log")
    let again = try LogTail.of(path, format)
    precondition(again.byteCount == tail.byteCount && again.tornByteCount == 0, "what was whole is torn")
    precondition(again.records == tail.records && again.drops == tail.drops)
    let reading = LogReading(log.extracting(..<tail.byteCount))
    precondition(
      reading.error != nil || reading.records.count == tail.records, "the reader has other records")
  } catch {
    checkText(Array("\(error)".utf8))
  }
}
