import BLEWire
internal import CLabStreaming

/// The error if liblsl cannot be used.
package struct NoLabStreaming: Error, Hashable, CustomStringConvertible {
  /// The dynamic linker's message.
  package let reason: String

  package var description: String {
    "the Lab Streaming Layer needs liblsl (\(reason)); install it: its releases have packages, and so has the Python package "
      + "pylsl; or name its file: RINGTAP_LIBLSL=/usr/local/lib/liblsl.so"
  }
}

/// liblsl, loaded at first use.
@safe struct LSLLibrary: @unchecked Sendable {  // The table it points to is written once, before first use.
  /// Capacity of a receiver's queue, equal to liblsl's default. The unit is a second at the stream's rate, or
  /// a hundred samples if the stream has no rate.
  static let queueLimit = Limit(
    360, "seconds of samples queued for one receiver of an LSL stream; hundreds of samples if it has no rate",
    by: .program, whenFull: "liblsl drops the oldest, for this receiver only",
    counted: "nowhere: liblsl does not report it")

  fileprivate let functions: UnsafePointer<ringtap_lsl>

  init() throws(NoLabStreaming) {
    var problem: UnsafePointer<CChar>?
    // SAFETY: the text is constant.
    guard let functions = unsafe ringtap_lsl_load(&problem) else {
      throw NoLabStreaming(reason: unsafe problem.map { unsafe String(cString: $0) } ?? "it cannot be opened")
    }
    unsafe self.functions = functions
  }

  /// Current time on LSL's clock, in nanoseconds.
  var now: Int64 {
    // SAFETY: the function table is never freed.
    Int64((unsafe functions.pointee.local_clock() * 1e9).rounded())
  }
}

/// A stream that receivers on the network can discover. Only one thread at a time may push.
@safe final class LSLOutlet: @unchecked Sendable {  // liblsl locks what its threads share with ours.
  private let library: LSLLibrary
  private let outlet: OpaquePointer

  /// Opens the stream's ports.
  ///
  /// - Returns: `nil` on failure. liblsl prints the reason on standard error.
  init?(_ stream: LSLStream, _ library: LSLLibrary) {
    // SAFETY: the calls copy all texts; an outlet has a copy of its description.
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
    // SAFETY: no other reference to the outlet exists.
    unsafe library.functions.pointee.destroy_outlet(outlet)
  }

  /// Adds the elements of a stream's description. The names of the elements are from the XDF specification.
  private static func describe(_ stream: LSLStream, _ root: OpaquePointer, _ functions: ringtap_lsl) {
    func append(_ values: [LSLStream.Element], _ element: OpaquePointer) {
      // SAFETY: the elements belong to the description, which outlives this call.
      for value in values { _ = unsafe functions.append_child_value(element, value.name, value.value) }
    }
    // SAFETY: the elements belong to the description, which outlives this call.
    let channels = unsafe functions.append_child(root, "channels")
    for channel in stream.channels { unsafe append(channel, functions.append_child(channels, "channel")) }
    unsafe append(stream.acquisition, functions.append_child(root, "acquisition"))
  }

  /// Whether the stream has receivers.
  var hasReceivers: Bool {
    // SAFETY: the outlet exists until this object is deinitialized.
    unsafe library.functions.pointee.have_consumers(outlet) != 0
  }

  /// Adds samples to the queue of each receiver.
  ///
  /// - Parameters:
  ///   - values: all channels of the first sample, then all channels of the next one, and so on.
  ///   - times: one time per sample.
  /// - Returns: whether liblsl accepted the samples.
  func push(_ values: [Double], at times: [Double]) -> Bool {
    // SAFETY: the call copies the arrays; there is a value for each channel of each sample.
    unsafe library.functions.pointee.push_chunk_dtnp(outlet, values, UInt(values.count), times, 1) == 0
  }

  /// Adds a text sample to the queue of each receiver.
  func push(_ text: String, at time: Double) -> Bool {
    unsafe text.withCString { text in
      // SAFETY: the call copies the text; the stream has one channel.
      var texts: [UnsafePointer<CChar>] = unsafe [text]
      return unsafe library.functions.pointee.push_sample_strtp(outlet, &texts, time, 1) == 0
    }
  }
}
