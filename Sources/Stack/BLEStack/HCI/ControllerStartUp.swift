package import BLEWire

/// The commands that initialise a controller, in order, and the properties from their responses.
///
/// Follows Core 5.4, Vol 4, Part E, Appendix A. Skips commands that a response makes unnecessary.
struct ControllerStartUp {
  /// One command of the sequence.
  struct Step {
    let opcode: HCIOpcode
    let encode: (inout OutputSpan<UInt8>) -> Void
  }

  private(set) var description = ControllerDescription()
  private var hasBuffers = false
  private var remaining: [Step] = [
    Step(.reset), Step(.readLocalVersion), Step(.readLocalSupportedCommands),
    Step(.readLocalSupportedFeatures), Step(.readBDADDR),
    Step(.setEventMask) { SetEventMask.host.encodeParameters(into: &$0) },
    Step(.leSetEventMask) { LESetEventMask.host.encodeParameters(into: &$0) },
    Step(.leReadLocalSupportedFeatures), Step(.leReadBufferSize),
  ]

  var opcodes: [HCIOpcode] { remaining.map { $0.opcode } }

  /// The command to send now; `nil` when the sequence is complete.
  var next: Step? { remaining.first }

  /// Processes the response to `next`.
  mutating func take(
    _ opcode: HCIOpcode, _ status: HCIStatus, _ returned: [UInt8]
  ) throws(HCIHostFailure) {
    remaining.removeFirst()
    // Optional for an LE controller. If it is not supported, only mandatory commands are used.
    if opcode == .readLocalSupportedCommands, status == .unknownCommand { return }
    guard status == .success else { throw .startUpRefused(opcode, status) }
    let octets = returned.span
    switch opcode {
    case .readLocalVersion where octets.count >= 6:
      description.hciVersion = octets[0]
      description.manufacturer = octets.u16(at: 4)
    case .readLocalSupportedCommands: description.supportedCommands = returned
    // LMP features, byte 4 bit 6: LE supported by the controller.
    case .readLocalSupportedFeatures where octets.count >= 8:
      guard octets[4] & 0x40 != 0 else { throw .notLowEnergy }
    case .readBDADDR where octets.count >= 6: description.address = octets.address(at: 0, type: .public)
    case .leReadLocalSupportedFeatures where octets.count >= 8:
      description.features = LEFeatures(bits: octets.u64(at: 0))
    case .leReadBufferSize where octets.count >= 3:
      try takeBuffers(octets.u16(at: 0), UInt16(octets[2]))
      // LE shares buffers with BR/EDR: read their size and number with Read Buffer Size.
      if !hasBuffers { remaining.append(Step(.readBufferSize)) }
    case .readBufferSize where octets.count >= 7:
      try takeBuffers(octets.u16(at: 0), octets.u16(at: 3))
      guard hasBuffers else { throw .noDataBuffers }
    default: break
    }
  }

  /// Stores the size and number of the controller's buffers. 0 in either means that there are no such
  /// buffers. Core 5.4, Vol 4, Part E, 7.8.2.
  ///
  /// - Throws: `dataBuffersTooSmall` if the size is below the specification's minimum.
  private mutating func takeBuffers(_ byteCount: UInt16, _ packetCount: UInt16) throws(HCIHostFailure) {
    guard byteCount > 0, packetCount > 0 else { return }
    guard byteCount >= 27 else { throw .dataBuffersTooSmall(byteCount: Int(byteCount)) }
    hasBuffers = true
    description.aclByteCount = Int(byteCount)
    description.aclPacketCount = Int(packetCount)
  }
}

extension HCIHost {
  /// The first commands of every initialisation. A log that contains them was recorded from this host.
  package static let startUpOpcodes = ControllerStartUp().opcodes
}

extension ControllerStartUp.Step {
  fileprivate init(_ opcode: HCIOpcode) { self.init(opcode: opcode) { _ in } }
  fileprivate init(_ opcode: HCIOpcode, _ encode: @escaping (inout OutputSpan<UInt8>) -> Void) {
    self.init(opcode: opcode, encode: encode)
  }
}
