public import BLEWire

/// What a peer did that ends a credit-based channel. Core 5.4, Vol 3, Part A, 3.4.3 and 10.1.
public enum CreditBasedFault: Error, Hashable, Sendable {
  /// It gave credits until there would have been more than 65,535.
  case creditOverflow
  /// It sent a PDU without having a credit.
  case noCredit
  /// A PDU longer than our MPS.
  case pduTooLong
  /// The first PDU of an SDU without the SDU's length.
  case noLength
  /// An SDU of this length, longer than our MTU.
  case sduTooLong(Int)
  /// More octets than the SDU's length said.
  case sduOverrun
}

/// The data of one LE credit-based channel that is open: SDUs in and out, PDUs out and in, no I/O.
///
/// Core 5.4, Vol 3, Part A, 3.4.3 and 10.1. The peer always has as many credits as it was given at first, less one for
/// each SDU that waits to be taken: what is kept for a slow reader is at most `local.credits` SDUs, and a reader that
/// takes what is there never leaves the peer without credits.
public struct CreditBasedChannelMachine: ~Copyable {
  /// SDUs that may wait for credits of the peer.
  public static let queueLimit = 8
  /// Octets of the longest PDU that is sent, whatever the peer takes.
  static let maximumByteCount = 2044

  public enum Submission: Hashable, Sendable {
    case queued
    /// Wait until `hasRoom`.
    case full
    /// The peer's MTU is less.
    case tooLong(mtu: Int)
  }

  public let local: CreditBasedParameters
  public let remote: CreditBasedParameters

  /// PDUs that we may send.
  public private(set) var credits: Int
  /// PDUs that the peer may send.
  public private(set) var peerCredits: Int
  /// Credits that the peer has used and may have again.
  private var returnable = 0
  private var queue: [[UInt8]] = []
  /// Octets of the first SDU that were sent; `nil` where its length was not sent either.
  private var sentByteCount: Int?
  private var sdu: [UInt8] = []
  private var expectedByteCount: Int?

  public init(local: CreditBasedParameters, remote: CreditBasedParameters) {
    self.local = local
    self.remote = remote
    credits = Int(remote.credits)
    peerCredits = Int(local.credits)
  }

  // MARK: Sending

  public var hasRoom: Bool { queue.count < Self.queueLimit }

  /// Queues an SDU.
  public mutating func submit(_ sdu: Span<UInt8>) -> Submission {
    guard sdu.count <= Int(remote.mtu) else { return .tooLong(mtu: Int(remote.mtu)) }
    guard hasRoom else { return .full }
    queue.append([UInt8](encoding: sdu.count) { $0.append(sdu) })
    return .queued
  }

  /// The next PDU, if there is something to send and a credit for it.
  public mutating func nextPDU() -> [UInt8]? {
    guard credits > 0, let sdu = queue.first else { return nil }
    credits -= 1
    let start = sentByteCount ?? 0
    let header = sentByteCount == nil ? 2 : 0
    let end = min(sdu.count, start + min(Int(remote.mps), Self.maximumByteCount) - header)
    let pdu = [UInt8](encoding: header + end - start) {
      if header > 0 { $0.append(u16: UInt16(sdu.count)) }
      $0.append(sdu.span.extracting(start..<end))
    }
    if end == sdu.count {
      queue.removeFirst()
      sentByteCount = nil
    } else {
      sentByteCount = end
    }
    return pdu
  }

  /// The peer gives credits.
  public mutating func credit(_ count: UInt16) throws(CreditBasedFault) {
    guard credits + Int(count) <= 65_535 else { throw .creditOverflow }
    credits += Int(count)
  }

  // MARK: Receiving

  /// Takes the next PDU of the peer.
  ///
  /// - Returns: the SDU that it completes; `taken` is due once somebody has it.
  public mutating func receive(_ pdu: Span<UInt8>) throws(CreditBasedFault) -> [UInt8]? {
    guard peerCredits > 0 else { throw .noCredit }
    peerCredits -= 1
    guard pdu.count <= Int(local.mps) else { throw .pduTooLong }
    var part = pdu
    if expectedByteCount == nil {
      guard pdu.count >= 2 else { throw .noLength }
      let length = Int(pdu.u16(at: 0))
      guard length <= Int(local.mtu) else { throw .sduTooLong(length) }
      expectedByteCount = length
      sdu = []
      sdu.reserveCapacity(length)
      part = pdu.extracting(2...)
    }
    let expected = expectedByteCount ?? 0
    guard sdu.count + part.count <= expected else { throw .sduOverrun }
    sdu.append(copying: part)
    guard sdu.count == expected else {
      returnable += 1
      return nil
    }
    expectedByteCount = nil
    var whole: [UInt8] = []
    swap(&whole, &sdu)
    return whole
  }

  /// Somebody has the SDU: its last PDU's credit goes back.
  public mutating func taken() { returnable += 1 }

  /// Credits to give back now: not each alone, but before the peer has to wait.
  public mutating func creditsToReturn() -> UInt16? {
    guard returnable > 0, peerCredits == 0 || returnable * 2 >= Int(local.credits) else { return nil }
    defer { returnable = 0 }
    peerCredits += returnable
    return UInt16(returnable)
  }
}
