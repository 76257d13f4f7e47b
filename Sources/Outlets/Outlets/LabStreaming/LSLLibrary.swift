import BLEWire
internal import CLabStreaming

/// liblsl cannot be used.
package struct NoLabStreaming: Error, Hashable, CustomStringConvertible {
  /// As the dynamic linker says it.
  package let reason: String

  package var description: String {
    "the Lab Streaming Layer needs liblsl (\(reason)); install it: its releases have packages, and so has the Python package "
      + "pylsl; or name its file: RINGTAP_LIBLSL=/usr/local/lib/liblsl.so"
  }
}

/// liblsl, which is opened at first use.
@safe struct LSLLibrary: @unchecked Sendable {  // What it points to is written once, before anybody has it.
  /// Samples that wait for one receiver: so many seconds at a stream's rate, and so many hundreds where it has none. That is
  /// liblsl's unit, and its default.
  static let queueLimit = Limit(
    360, "seconds of samples that wait for one receiver of an LSL stream; without a rate hundreds of samples",
    by: .program, whenFull: "liblsl drops the oldest, for that receiver alone",
    counted: "nowhere: liblsl tells nobody")

  fileprivate let functions: UnsafePointer<ringtap_lsl>

  init() throws(NoLabStreaming) {
    var problem: UnsafePointer<CChar>?
    // SAFETY: the text is constant.
    guard let functions = unsafe ringtap_lsl_load(&problem) else {
      throw NoLabStreaming(reason: unsafe problem.map { unsafe String(cString: $0) } ?? "it cannot be opened")
    }
    unsafe self.functions = functions
  }

  /// Nanoseconds on the clock of time stamps.
  var now: Int64 {
    // SAFETY: the table stays.
    Int64((unsafe functions.pointee.local_clock() * 1e9).rounded())
  }
}

/// A stream that receivers of the network find. One thread at a time pushes.
@safe final class LSLOutlet: @unchecked Sendable {  // liblsl locks what its own threads share with ours.
  private let library: LSLLibrary
  private let outlet: OpaquePointer

  /// Opens its ports.
  ///
  /// - Returns: `nil` where that is not possible: liblsl says why on standard error.
  init?(_ stream: LSLStream, _ library: LSLLibrary) {
    // SAFETY: all texts are copied by the calls; an outlet has a copy of its description.
    let functions = unsafe library.functions.pointee
    guard
      let info = unsafe functions.create_streaminfo(
        stream.name, stream.type, Int32(stream.channels.count), stream.rateHz, stream.format.rawValue,
        stream.sourceID)
    else { return nil }
    defer { unsafe functions.destroy_streaminfo(info) }
    unsafe Self.describe(stream, functions.get_desc(info), functions)
    guard let outlet = unsafe functions.create_outlet(info, 0, Int32(LSLLibrary.queueLimit.count)) else {
      return nil
    }
    self.library = library
    unsafe self.outlet = outlet
  }

  deinit {
    // SAFETY: nobody uses it any more.
    unsafe library.functions.pointee.destroy_outlet(outlet)
  }

  /// Elements as the XDF specification names them.
  private static func describe(_ stream: LSLStream, _ root: OpaquePointer, _ functions: ringtap_lsl) {
    func append(_ values: [LSLStream.Element], _ element: OpaquePointer) {
      // SAFETY: the elements belong to the description, which outlives this call.
      for value in values { _ = unsafe functions.append_child_value(element, value.name, value.value) }
    }
    // SAFETY: as above.
    let channels = unsafe functions.append_child(root, "channels")
    for channel in stream.channels { unsafe append(channel, functions.append_child(channels, "channel")) }
    unsafe append(stream.acquisition, functions.append_child(root, "acquisition"))
  }

  /// Whether anybody receives.
  var hasReceivers: Bool {
    // SAFETY: the outlet is there until the end of this object.
    unsafe library.functions.pointee.have_consumers(outlet) != 0
  }

  /// Puts samples into the queue of each receiver.
  ///
  /// - Parameters:
  ///   - values: of all channels of the first sample, then of the next.
  ///   - times: one for each sample.
  /// - Returns: whether liblsl took them.
  func push(_ values: [Double], at times: [Double]) -> Bool {
    // SAFETY: the arrays are copied within the call; there is a value for each channel of each sample.
    unsafe library.functions.pointee.push_chunk_dtnp(outlet, values, UInt(values.count), times, 1) == 0
  }

  /// The same with a text.
  func push(_ text: String, at time: Double) -> Bool {
    unsafe text.withCString { text in
      // SAFETY: the text is copied within the call; the stream has one channel.
      var texts: [UnsafePointer<CChar>] = unsafe [text]
      return unsafe library.functions.pointee.push_sample_strtp(outlet, &texts, time, 1) == 0
    }
  }
}
