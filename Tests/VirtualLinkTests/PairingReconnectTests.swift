import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import Foundation
import PeripheralKit
import TestKit
import TestPeer
import Testing

import SensorSessions

/// Thousands of links that pair, end and reconnect: host and device use no more resources afterwards than
/// before (CVE-2024-6657: a controller runs out of a resource).
///
/// With `RINGTAP_RECONNECTS=10000` and no other tests in the process it also compares memory, descriptors and
/// threads: `RINGTAP_RECONNECTS=10000 swift test --skip-build --filter PairingReconnectTests`.
@Suite(.timeLimit(.minutes(60))) struct PairingReconnectTests {
  /// Resources of this process and of its bonds.
  private struct Footprint: CustomStringConvertible {
    var residentKilobytes = 0
    var threads = 0
    var descriptors = 0
    var files = 0

    init(_ folders: [String]) throws {
      for line in try String(contentsOfFile: "/proc/self/status", encoding: .utf8).split(separator: "\n") {
        let number = line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) } ?? 0
        if line.hasPrefix("VmRSS:") { residentKilobytes = number }
        if line.hasPrefix("Threads:") { threads = number }
      }
      descriptors = openDescriptorCount()
      files = folders.reduce(0) { $0 + Files.names(in: $1).count { $0 != "." && $0 != ".." } }
    }

    var description: String {
      "\(residentKilobytes) kB, \(threads) threads, \(descriptors) descriptors, \(files) files"
    }
  }

  private static let wanted = ProcessInfo.processInfo.environment["RINGTAP_RECONNECTS"].flatMap { Int($0) }

  @Test func leavesNothingBehind() async throws {
    let count = Self.wanted ?? 50
    try await withFolder { folder in
      let folders = [folder + "/device", folder + "/central"]
      let bonds = folders.map { BondFiles(in: $0) { Issue.record("\($0)") } }
      let device = try await VirtualDevice.open(centrals: 1)
      for (host, bonds) in zip([device.host, device.centrals[0]], bonds) {
        try await host.secure(
          SecuritySettings(raising: .byPairing, store: bonds, makeKeyPair: try P256KeyPair.maker()))
      }
      try await device.serve { server in
        // One-time allocations are done by then.
        try await reconnect(max(5, count / 20), device, server, bonds)
        let before = try Footprint(folders)
        try await reconnect(count, device, server, bonds)
        let after = try Footprint(folders)
        #expect(after.files == before.files)
        #expect(after.files == 2)
        guard Self.wanted != nil else { return }
        print("\(count) pairings, \(2 * count) links: before \(before); after \(after)")
        #expect(after.threads == before.threads)
        #expect(after.descriptors == before.descriptors)
        // The allocator's own overhead: anything that a link or a pairing could leak is larger than 100
        // bytes.
        #expect(after.residentKilobytes - before.residentKilobytes < count / 10 + 1024)
      }
      await device.close()
    }
  }

  /// Pairs again each time, and reconnects once with the key.
  private func reconnect(
    _ count: Int, _ device: VirtualDevice, _ server: GATTServer, _ bonds: [BondFiles]
  ) async throws {
    let central = device.centrals[0]
    for _ in 0..<count {
      for bonds in bonds {
        for stored in bonds.bonds() { #expect(try bonds.forget(stored.device)) }
      }
      let first = try await device.connect()
      let bond = try await central.pair(first)
      #expect(bond.isBonded && bond.isSecureConnections)
      try await close(first, device, server)
      let second = try await device.connect()
      #expect(await central.isEncrypted(second))
      try await close(second, device, server)
    }
    #expect(await central.load == 0)
    #expect(await device.host.load == 0)
  }

  private func close(_ connection: Connection, _ device: VirtualDevice, _ server: GATTServer) async throws {
    await connection.close()
    _ = await connection.ended()
    while await !server.centrals.isEmpty { await Task.yield() }
  }
}
