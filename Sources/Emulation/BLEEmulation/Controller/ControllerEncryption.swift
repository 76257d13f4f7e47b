import BLEStack
import BLEWire

/// Encryption of links and of blocks. Core 5.4, Vol 4, Part E, 7.8.22 and 7.8.24–26.
extension VirtualController {
  func encryptBlock(_ parameters: Span<UInt8>) {
    let block = AES128(key: parameters.u128(at: 0)).encrypt(parameters.u128(at: 16))
    complete(.encrypt, capacity: 16) { $0.append(u128: block) }
  }

  func executeEncryption(
    _ command: ControllerCommand, _ parameters: Span<UInt8>, _ link: AirLink, _ end: LinkEnd
  ) {
    guard command != .enableEncryption else { return enableEncryption(parameters, link, end) }
    guard end.awaitsKey else { return complete(command, .commandDisallowed) }
    end.awaitsKey = false
    complete(command, capacity: 2) { $0.append(u16: end.handle.rawValue) }
    link.answerEncryption(command == .longTermKeyRequestReply ? parameters.u128(at: 2) : nil)
  }

  private func enableEncryption(_ parameters: Span<UInt8>, _ link: AirLink, _ end: LinkEnd) {
    guard end.role == .central, link.wantedEncryption == nil else {
      return status(.enableEncryption, .commandDisallowed)
    }
    status(.enableEncryption)
    if let failure = injected.encryption {
      if let status = failure.status { encryptionEnded(status, isRefresh: false, on: end) }
      return
    }
    link.requestEncryption(
      LinkEncryption(
        random: parameters.u64(at: 2), diversifier: parameters.u16(at: 10), key: parameters.u128(at: 12)))
  }

  /// Reports that encryption has ended on each encrypted link.
  func endEncryption() {
    for end in links where end.isEncrypted {
      end.isEncrypted = false
      event(.encryptionChange, capacity: 4) {
        EncryptionChange(status: .success, handle: end.handle, isEncrypted: false).encode(into: &$0)
      }
    }
  }

  func keyWanted(_ random: UInt64, _ diversifier: UInt16, on end: LinkEnd) {
    // A host that does not enable the event has no keys. Core 5.4, Vol 4, Part E, 7.7.65.5.
    guard state.mask.allows(.longTermKeyRequest) else { return end.link?.answerEncryption(nil) ?? () }
    end.awaitsKey = true
    event(.longTermKeyRequest, capacity: 12) {
      $0.append(u16: end.handle.rawValue)
      $0.append(u64: random)
      $0.append(u16: diversifier)
    }
  }

  func encryptionEnded(_ status: HCIStatus, isRefresh: Bool, on end: LinkEnd) {
    if isRefresh {
      event(.encryptionKeyRefreshComplete, capacity: 3) {
        EncryptionKeyRefreshComplete(status: status, handle: end.handle).encode(into: &$0)
      }
    } else {
      event(.encryptionChange, capacity: 4) {
        EncryptionChange(status: status, handle: end.handle, isEncrypted: status == .success).encode(
          into: &$0)
      }
    }
  }
}
