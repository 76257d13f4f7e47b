import BLEEmulation
import BLELinux
import BLEWire

/// Breaks a device's link every twelve seconds, by three causes in turn.
struct LossScript: Sendable {
  enum Loss: CaseIterable, Sendable {
    /// The device disconnects.
    case leaving
    /// The device is out of range for four seconds.
    case silence
    /// The device receives nothing for four seconds, on its existing link or on a new one.
    case deaf

    /// The controller's reason for the loss of the streaming link. Core 5.4, Vol 1, Part F, 2.8 and 2.19.
    var reason: UInt8 { self == .leaving ? 0x13 : 0x08 }
  }

  private let device: DeviceAddress
  private let emulation: ControllerAttachment
  private let loop: EventLoop

  init(_ device: DeviceAddress, _ emulation: ControllerAttachment, _ loop: EventLoop) {
    self.device = device
    self.emulation = emulation
    self.loop = loop
  }

  static func losses(_ count: Int) -> [Loss] { (0..<count).map { Loss.allCases[$0 % Loss.allCases.count] } }

  func run(_ count: Int) async throws {
    for loss in Self.losses(count) {
      try await loop.wait(for: .seconds(8))
      switch loss {
      case .leaving: await emulation.inject(.disconnect(device, .remoteUserTerminated))
      case .silence: await emulation.inject(.outOfRange(device))
      case .deaf: await emulation.inject(.deafen(device))
      }
      try await loop.wait(for: .seconds(4))
      await emulation.inject(.inRange(device))
    }
    try await loop.wait(for: .seconds(8))
  }
}
