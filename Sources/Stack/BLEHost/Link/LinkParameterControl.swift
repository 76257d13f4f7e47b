import BLELinux
import BLEStack
import BLEWire

/// Asks a link of the kernel's for what the kernel would not: LE commands for its handle, over the raw channel.
///
/// The kernel follows: it takes the controller's events for its own. See reference `linux-bluetooth-kernel.md`, 12.
struct LinkParameterControl {
  let channel: RawChannel?
  /// Why there is no channel.
  private let refusal: HostError?

  init(_ channel: RawChannel?, _ refusal: HostError?) {
    self.channel = channel
    self.refusal = refusal
  }

  func ask(_ request: LinkRequest, of connection: Connection) async {
    let handle = connection.handle
    if let timing = request.timing { await changeTiming(to: timing, of: connection) }
    if let phy = request.phy { await ask(.phy, of: connection, LESetPHY(handle, phy)) }
    if let octets = request.dataLength {
      await ask(.dataLength, of: connection, LESetDataLength(handle, octets: octets))
    }
  }

  /// The link outlives us where others use it, so the timing is put back in the end, unless the peer has changed it
  /// since.
  private func changeTiming(to range: LinkParameterRange, of connection: Connection) async {
    let handle = connection.handle
    let current = await channel?.timing(handle)
    let former = await connection.firstTiming(current)
    guard await ask(.timing, of: connection, LEConnectionUpdate(handle, range)),
      let channel, let former, !range.contains(former)
    else { return }
    await connection.onClose {
      guard let current = await channel.timing(handle), range.contains(current) else { return }
      // A channel that has gone with its adapter has nothing left to restore.
      try? await channel.post(LEConnectionUpdate(handle, LinkParameterRange(former)))
    }
  }

  @discardableResult
  private func ask(
    _ part: LinkRequest.Part, of connection: Connection, _ command: any HCICommand
  ) async -> Bool {
    do throws(HostError) {
      guard let channel else { throw refusal ?? .adapterDown("the adapter") }
      // The handle of a link that has ended may be another's by now.
      if let end = await connection.end { throw .gatt(.closed(end)) }
      await connection.noteAsking(for: part)
      try await channel.command(command)
      return true
    } catch {
      await connection.note(LinkChange(time: SystemClock.now(), value: .refused(part, error)))
      return false
    }
  }
}

extension LinkParameterRange {
  /// Whether a link with this timing is as asked for.
  func contains(_ timing: LinkParameters) -> Bool {
    (minimumInterval...maximumInterval).contains(timing.interval) && timing.latency == latency
      && timing.supervisionTimeout == supervisionTimeout
  }

  /// Exactly this timing.
  fileprivate init(_ timing: LinkParameters) {
    self.init(
      minimumInterval: timing.interval, maximumInterval: timing.interval, latency: timing.latency,
      supervisionTimeout: timing.supervisionTimeout)
  }
}
