import BLELinux
import BLEStack
import BLEWire

/// Links of the kernel's that begin with short intervals. It makes links with 30 to 50 ms, unless it was told otherwise of a
/// device before: `mgmt-api.txt`, 0x0035.
extension KernelAdapter {
  /// Tells the kernel the timing of a fast start.
  ///
  /// Not beside `bluetoothd`: what that has loaded for its devices would go with our load. Nor where the controller cannot be
  /// told the timing that is to follow. After SIGKILL the kernel keeps it for this device until the adapter is switched off.
  ///
  /// - Returns: whether the link will have it.
  func beginFastStart(with peer: DeviceAddress, _ request: LinkRequest, _ lever: LinkParameterControl) async
    -> Bool
  {
    guard request.startsFast, lever.channel != nil, ProcessFacts.has(.netRaw), HostError.daemon == nil else {
      // An earlier link may have gone before its fast start was over.
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
      // Then it begins as the kernel has it.
      return false
    }
  }

  /// Gives a link the timing that it is to keep: what was asked for, else the kernel's own. What the device has asked for
  /// meanwhile is in force already.
  func endFastStart(_ connection: Connection, as peer: DeviceAddress, _ request: LinkRequest) async {
    await forgetFastStart(with: peer)
    var rest = request
    (rest.phy, rest.dataLength) = (nil, nil)
    let range = LinkParameterRange.default
    let own = range.minimumInterval...range.maximumInterval
    // A link that outlives us goes back to what the kernel gives one.
    _ = await connection.firstTiming(
      .init(interval: own.upperBound, latency: range.latency, supervisionTimeout: range.supervisionTimeout))
    if rest.timing == nil, await connection.isFast { rest.interval = own }
    await change(connection, to: rest)
  }

  /// Takes it back. A kernel from 6.11 on gives a link that is up what it is told of one device, of one alone: hence twice.
  func forgetFastStart(with peer: DeviceAddress) async {
    guard fastStarts.removeValue(forKey: peer) != nil, let management else { return }
    let former = LoadConnectionParameters.Entry(peer, .default)
    // A device that the kernel connects by itself keeps its entry in the second load. With the adapter gone all are gone.
    _ = try? await management.command(LoadConnectionParameters(fastStartEntries + [former, former]))
    _ = try? await management.command(LoadConnectionParameters(fastStartEntries))
  }

  /// Each load replaces the list, so all that are wanted now go into it.
  private var fastStartEntries: [LoadConnectionParameters.Entry] {
    fastStarts.map { LoadConnectionParameters.Entry($0.key, $0.value) }
  }
}
