public import BLEHost
import BLELinux
public import BLEStack

extension AdvertisingAdapter {
  /// Is a device of ours while `body` runs.
  ///
  /// When `body` returns or throws, or its task is cancelled, advertising is off and the links are ended before this returns.
  /// Where the controller goes, the server's events end, and its error is thrown when `body` is through.
  ///
  /// - Parameters:
  ///   - advertisement: what scanners see; the name is that of the Device Name characteristic, too.
  ///   - services: in the order of their handles; Generic Access and Generic Attribute are put in front.
  ///   - limit: centrals at once.
  ///   - tap: gets the ATT PDUs of all links.
  ///   - body: gets the server once it is advertised.
  /// - Throws: as `advertise`, or what `body` throws.
  public nonisolated func advertise<Value>(
    _ advertisement: DeviceAdvertisement, services: [GATTServiceDescription], upTo limit: Int = 8,
    tap: PacketTap? = nil, _ body: (GATTServer) async throws -> Value
  ) async throws -> Value {
    let server = GATTServer(
      services, name: advertisement.name, appearance: advertisement.appearance ?? 0, on: loop)
    return try await advertise(advertisement, server, upTo: limit, tap: tap, body)
  }

  /// The same for a server that is there already.
  package nonisolated func advertise<Value>(
    _ advertisement: DeviceAdvertisement, _ server: GATTServer, upTo limit: Int, tap: PacketTap?,
    _ body: (GATTServer) async throws -> Value
  ) async throws -> Value {
    let keeper = loop.task { () -> HostError? in
      var failure: HostError?
      do throws(HostError) {
        try await self.advertise(advertisement, serving: server, upTo: limit, tap: tap)
      } catch { failure = error }
      await server.close()
      return failure
    }
    var outcome: Result<Value, any Error>
    guard await server.isAdvertised() else { throw await keeper.value ?? .adapterDown(name) }
    do { outcome = .success(try await body(server)) } catch { outcome = .failure(error) }
    keeper.cancel()
    if let failure = await keeper.value { outcome = .failure(failure) }
    return try outcome.get()
  }
}
