import BLELinux
import BLEStack
import BLEWire

/// Fast starts on kernel links. The kernel creates links with an interval of 30 to 50 ms unless connection
/// parameters for the device are loaded: `mgmt-api.txt`, 0x0035.
extension KernelAdapter {
  /// Loads the timing of a fast start into the kernel.
  ///
  /// Does nothing if `bluetoothd` runs, because each load replaces the entries that `bluetoothd` loaded, or
  /// if the lasting timing could not be set afterwards. If the process is killed with SIGKILL, the kernel
  /// keeps the entry until the adapter is switched off.
  ///
  /// - Returns: Whether the link will start fast.
  func beginFastStart(with peer: DeviceAddress, _ request: LinkRequest, _ lever: LinkParameterControl) async
    -> Bool
  {
    guard request.startsFast, lever.channel != nil, ProcessFacts.has(.netRaw), HostError.daemon == nil else {
      // An earlier link may have ended before its fast start.
      await forgetFastStart(with: peer)
      return false
    }
    do throws(HostError) {
      let management = try await openManagement()
      fastStarts[peer] = request.initialTiming
      try await management.command(LoadConnectionParameters(fastStartEntries))
      return true
    } catch {
      fastStarts[peer] = nil
      // The link starts with the kernel's default timing.
      return false
    }
  }

  /// Sets the lasting timing of a link: the requested one, otherwise the kernel's default. Timing that the
  /// device has requested meanwhile stays in force.
  func endFastStart(_ connection: Connection, as peer: DeviceAddress, _ request: LinkRequest) async {
    await forgetFastStart(with: peer)
    var rest = request
    (rest.phy, rest.dataLength) = (nil, nil)
    let range = LinkParameterRange.default
    let own = range.minimumInterval...range.maximumInterval
    // If the link outlives this process, it must return to the kernel's default timing.
    _ = await connection.firstTiming(
      .init(interval: own.upperBound, latency: range.latency, supervisionTimeout: range.supervisionTimeout))
    if rest.timing == nil, await connection.isFast { rest.interval = own }
    await change(connection, to: rest)
  }

  /// Removes the entry of a fast start. Linux 6.11 and later apply a load of exactly one entry to a live
  /// link, so the default entry is listed twice.
  func forgetFastStart(with peer: DeviceAddress) async {
    guard fastStarts.removeValue(forKey: peer) != nil, let management else { return }
    let former = LoadConnectionParameters.Entry(peer, .default)
    // The kernel keeps the entry of a device that it connects to on its own, so the first load resets that
    // entry. Both may fail if the adapter was removed; its entries are then gone too.
    _ = try? await management.command(LoadConnectionParameters(fastStartEntries + [former, former]))
    _ = try? await management.command(LoadConnectionParameters(fastStartEntries))
  }

  /// All current entries, because each load replaces the whole list.
  private var fastStartEntries: [LoadConnectionParameters.Entry] {
    fastStarts.map { LoadConnectionParameters.Entry($0.key, $0.value) }
  }
}
