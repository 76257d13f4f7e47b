import BLEWire

/// Corrects the order and the timestamps of an HCI log if the log proves that they are wrong.
///
/// - Data of a link may precede the event that starts the link, because controllers deliver data and events
///   over different endpoints. The event is moved before the data, with the time of the data.
/// - A clock may be set during recording. Timestamps then continue from the timestamps before the step.
///
/// Air packets are not changed, because sniffers have their own clocks.
public struct LogTimeline {
  private var clock = LogClock()
  private var order = EarlyData()
  private var isFromAir = false

  public init() {}

  /// The first places at which the clock was or may have been set.
  public var clockSteps: [LogClockStep] { clock.steps }
  /// Number of steps, including steps that are not listed.
  public var clockStepCount: Int { clock.count }
  /// Number of records that are older than their neighbours, and get the timestamps of their neighbours.
  public var disorderedRecords: Int { clock.disordered }

  /// Handles the next record, and passes the record to `body` during this call or a later call.
  public mutating func take(
    _ record: borrowing PacketRecord, _ body: (borrowing PacketRecord) -> Void
  ) {
    if record.header.air != nil { isFromAir = true }
    guard !isFromAir else { return body(record) }
    var order = EarlyData()
    swap(&order, &self.order)
    clock.take(record) { order.take($0, body) }
    swap(&order, &self.order)
  }

  /// Passes all held records to `body`.
  public mutating func finish(_ body: (borrowing PacketRecord) -> Void) {
    var order = EarlyData()
    swap(&order, &self.order)
    clock.finish { order.take($0, body) }
    order.finish(body)
    swap(&order, &self.order)
  }
}

extension PacketRecord {
  /// Copies a record with another time.
  @_lifetime(copy record)
  init(_ record: borrowing PacketRecord, at time: ReceiveTime, clockSteps: Int) {
    var header = record.header
    (header.time, header.clockSteps) = (time, clockSteps)
    self.init(header, packet: record.packet, comment: record.comment)
  }
}

/// A link of a log: adapter and handle.
struct LinkKey: Hashable {
  private let number: UInt32

  init(_ adapter: UInt16, _ handle: UInt16) { number = UInt32(adapter) << 16 | UInt32(handle & 0x0FFF) }
}

/// Relation of a packet to links.
enum LinkMention {
  case started(LinkKey)
  case ended(LinkKey)
  /// Data from the controller, and whether the data start a frame.
  case received(LinkKey, isStart: Bool)
  /// Packets that are exchanged only for a known link.
  case known([LinkKey])

  /// Determines the relation of a record to links.
  ///
  /// - Returns: `nil` if the packet does not concern a link.
  init?(_ record: borrowing PacketRecord) {
    let packet = record.packet
    switch record.type {
    case .acl where packet.count >= 2:
      let key = LinkKey(record.adapter, packet.u16(at: 0))
      self =
        record.direction == .controllerToHost
        ? .received(key, isStart: packet.u16(at: 0) >> 12 & 0x03 != 1) : .known([key])
    case .command where packet.count >= 5 && ConnectionFields.startsWithHandle(opcode: packet.u16(at: 0)):
      self = .known([LinkKey(record.adapter, packet.u16(at: 3))])
    case .event where packet.count >= 3:
      self.init(event: packet, record.adapter)
    default: return nil
    }
  }

  private init?(event: Span<UInt8>, _ adapter: UInt16) {
    let parameters = event.extracting(2...)
    if let (handle, _) = ConnectionFields.start(code: event[0], parameters) {
      self = .started(LinkKey(adapter, handle.rawValue))
    } else if event[0] == HCIEventCode.numberOfCompletedPackets.rawValue {
      let count = min(Int(parameters[0]), (parameters.count - 1) / 4)
      self = .known((0..<count).map { LinkKey(adapter, parameters.u16(at: 1 + 4 * $0)) })
    } else if let offset = ConnectionFields.handleOffset(code: event[0], parameters),
      parameters.count >= offset + 2
    {
      let key = LinkKey(adapter, parameters.u16(at: offset))
      let isEnd = event[0] == HCIEventCode.disconnectionComplete.rawValue && parameters[0] == 0
      self = isEnd ? .ended(key) : .known([key])
    } else {
      return nil
    }
  }
}

/// Moves the event that starts a link before data of the link.
struct EarlyData {
  static let limit = Limit(
    256, "records of a log that wait for the start of a link", by: .file,
    whenFull: "they keep their order",
    counted: "`origin` of `log stats`")
  /// Maximum time for which data wait for the start of their link.
  private static let wait = TimeSpan(nanoseconds: 200_000_000)
  /// Maximum time after the end of a link in which its data may arrive.
  private static let late = TimeSpan(nanoseconds: 1_000_000_000)
  private static let maximumLinks = 1_024
  private static let maximumEnded = 16

  private var links: Set<LinkKey> = []
  private var ended: [(link: LinkKey, time: ReceiveTime)] = []
  /// The link whose data come first in `held`.
  private var awaited: LinkKey?
  private var held: [StoredPacketRecord] = []

  init() {}

  mutating func take(_ record: borrowing PacketRecord, _ body: (borrowing PacketRecord) -> Void) {
    let mention = LinkMention(record)
    guard let awaited else {
      if case .received(let link, true) = mention, !links.contains(link) {
        self.awaited = link
        held.append(StoredPacketRecord(copying: record))
        return
      }
      note(mention, at: record.time)
      return body(record)
    }
    held.append(StoredPacketRecord(copying: record))
    let age = record.time - held[0].header.time
    guard age <= Self.wait, age >= .zero, held.count < Self.limit.count else { return release(body) }
    switch mention {
    case .started(awaited): begin(awaited, body)
    case .ended(awaited): release(body)
    case .known(let links) where links.contains(awaited): release(body)
    default: break
    }
  }

  mutating func finish(_ body: (borrowing PacketRecord) -> Void) {
    while awaited != nil { release(body) }
  }

  private mutating func note(_ mention: LinkMention?, at time: ReceiveTime) {
    switch mention {
    case .started(let link): add(link)
    case .received(let link, _): add(link)
    case .known(let links): for link in links { add(link) }
    case .ended(let link):
      links.remove(link)
      if ended.count == Self.maximumEnded { ended.removeFirst() }
      ended.append((link, time))
    case nil: break
    }
  }

  private mutating func add(_ link: LinkKey) {
    if links.count == Self.maximumLinks { links.removeAll() }
    links.insert(link)
  }

  /// Handles the start of the link whose data were held, which is the last record.
  private mutating func begin(_ link: LinkKey, _ body: (borrowing PacketRecord) -> Void) {
    let (start, data) = (held[held.count - 1].header.time, held[0].header.time)
    // Data between the end of a link and the start of the next link with the same handle belong to the nearer
    // link.
    let end = ended.last { $0.link == link && data - $0.time <= Self.late }
    guard end.map({ start - data < data - $0.time }) ?? true else { return release(body) }
    var event = held.removeLast()
    event.header.time = data
    add(link)
    event.withRecord(body)
    retake(body)
  }

  /// Stops waiting for the start of the link, because the link was up before the log starts, or has just
  /// ended.
  private mutating func release(_ body: (borrowing PacketRecord) -> Void) {
    if let awaited { add(awaited) }
    retake(body)
  }

  private mutating func retake(_ body: (borrowing PacketRecord) -> Void) {
    var records: [StoredPacketRecord] = []
    swap(&records, &held)
    awaited = nil
    for record in records { record.withRecord { take($0, body) } }
  }
}
