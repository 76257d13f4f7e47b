import ArgumentParser
import BLEEmulation
import CommandKit

/// `ringtap emulate DEVICE`: runs a virtual controller with devices in range until interrupted.
package struct EmulateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "emulate",
    abstract: "Run a virtual controller with emulated sensors.",
    discussion: """
      Creates a kernel adapter through /dev/vhci (needs root) and switches it on, or serves the controller \
      as a byte stream. Prints a line when it is ready, and runs until Ctrl-C. Devices are those of a \
      `virtual:` transport: a kind with options, several joined with +. Options may also be written as \
      --option VALUE; then they apply to each device. `ringtap help virtual` lists kinds and options.

      A ring sends 3 raw notifications per second unless --rate is given. Its raw stream starts with frames \
      captured from real rings and continues with a simulated wearer. `air` is no device: each --transport is \
      a controller for a host that advertises or connects itself. Hosts may connect and disconnect at any \
      time, in any order; each finds its controller in the state after power-on.

      EXAMPLES
        sudo ringtap emulate ring --vhci --rate 300 --real-time
        sudo ringtap emulate ring,rate=75,motion=run,bout=60 --real-time --vhci
        ringtap emulate ring --transport tcp-server:127.0.0.1:6402
            then, elsewhere: ringtap capture --transport tcp-client:127.0.0.1:6402
        ringtap emulate ring,rate=75+heart-rate,off-body-every=10 \\
          --transport tcp-server:127.0.0.1:6402
        sudo ringtap emulate ring --adapter hci0 --mode exclusive
            on air, under the adapter's address; on another machine: ringtap capture
        ringtap emulate air --real-time --transport tcp-server:127.0.0.1:6402 \\
          --transport tcp-server:127.0.0.1:6403
      """)

  @OptionGroup var options: EmulationOptions

  @Argument(
    parsing: .allUnrecognized,
    help: ArgumentHelp(
      "ring, heart-rate, thermometer, core, cycling, polar, source or air, and options.", valueName: "device")
  )
  var words: [String] = []

  package init() {}

  package func validate() throws { _ = try emulation() }

  package func run() async throws {
    let (emulation, options) = try emulation()
    try await emulation.run(options)
  }

  private func emulation() throws -> (Emulation, EmulationOptions) {
    guard let device = words.first, !device.hasPrefix("-") else {
      throw ValidationError("which device? Give one such as ring, or ring,rate=75+heart-rate")
    }
    let added = try Self.options(words.dropFirst())
    if device == "air" {
      if let option = added.first { throw ValidationError("'\(option.name)' is no option of air") }
      return (Emulation(nil), options)
    }
    let specification: VirtualPeripheralSpecification
    do throws(VirtualPeripheralSpecification.ParseError) {
      specification = try VirtualPeripheralSpecification(parsing: device, adding: added)
    } catch { throw ValidationError(error.description) }
    let options = options.adding(specification)
    try options.validate()
    if options.adapter != nil, specification.deviceCount > 1 || specification.sleepsAfter != nil {
      throw ValidationError("--rings and --sleeps-after are for a virtual controller, not an --adapter")
    }
    return (Emulation(specification), options)
  }

  /// Parses `--name VALUE`, `--name=VALUE` and `--name`.
  private static func options(_ words: ArraySlice<String>) throws -> [(name: String, value: String?)] {
    var options: [(name: String, value: String?)] = []
    for word in words {
      if word.hasPrefix("--") {
        let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        options.append((String(parts[0]), parts.count > 1 ? String(parts[1]) : nil))
      } else if let last = options.indices.last, options[last].value == nil {
        options[last].value = word
      } else {
        throw ValidationError("unexpected '\(word)': join several devices with +")
      }
    }
    return options
  }
}
