import BLEHost
import BLELinux
import BLEWire
import Glibc
import Recording

/// The least program that captures, on the libraries alone: for `Tools/footprint`.
///
/// `minimal ADDRESS DIRECTORY COUNT`: raw samples of a ring by the kernel's first adapter.
@main enum Minimal {
  static func main() async {
    let arguments = CommandLine.arguments
    guard arguments.count == 4, let address = DeviceAddress(arguments[1], type: .public),
      let count = Int(arguments[3])
    else { exit(2) }
    do throws(HostError) {
      let adapter = KernelAdapter(try KernelAdapter.find(nil), on: try EventLoop.start())
      ProgramCode.releaseOnce(after: .seconds(5))
      let result = try await SensorRecording(
        of: address, on: adapter, into: arguments[2], .init(count: count)
      ).run(.ring)
      exit(result.failure == nil ? 0 : 1)
    } catch {
      print(error)
      exit(1)
    }
  }
}
