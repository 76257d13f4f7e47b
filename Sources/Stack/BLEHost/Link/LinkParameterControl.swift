import BLELinux
import BLEStack
import BLEWire

/// Requests link parameters that the kernel does not request itself, by sending LE commands for the link's
/// handle on the raw channel.
///
/// The kernel adopts the new parameters: it processes the controller's events as if it had sent the commands
/// itself. See reference `linux-bluetooth-kernel.md`, 12.
struct LinkParameterControl {
  let channel: RawChannel?
  /// Reason why the raw channel is not available.
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

  /// Changes the timing. When the connection closes, restores the earlier timing unless the peer has changed
  /// it since, because other programs may keep the link up.
  private func changeTiming(to range: LinkParameterRange, of connection: Connection) async {
    let handle = connection.handle
    let current = await channel?.timing(handle)
    let former = await connection.firstTiming(current)
    guard await ask(.timing, of: connection, LEConnectionUpdate(handle, range)),
      let channel, let former, !range.contains(former)
    else { return }
    await connection.onClose {
      guard let current = await channel.timing(handle), range.contains(current) else { return }
      // May fail if the adapter was removed. Nothing must then be restored.
      try? await channel.post(LEConnectionUpdate(handle, LinkParameterRange(former)))
    }
  }

  @discardableResult
  private func ask(
    _ part: LinkRequest.Part, of connection: Connection, _ command: any HCICommand
  ) async -> Bool {
    do throws(HostError) {
      guard let channel else { throw refusal ?? .adapterDown("the adapter") }
      // Another link may have the same handle by now.
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
  /// Returns whether a link with this timing meets the request.
  func contains(_ timing: LinkParameters) -> Bool {
    (minimumInterval...maximumInterval).contains(timing.interval) && timing.latency == latency
      && timing.supervisionTimeout == supervisionTimeout
  }

  /// Creates the range that contains exactly this timing.
  fileprivate init(_ timing: LinkParameters) {
    self.init(
      minimumInterval: timing.interval, maximumInterval: timing.interval, latency: timing.latency,
      supervisionTimeout: timing.supervisionTimeout)
  }
}
