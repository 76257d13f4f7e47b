import FuzzTargets
import Glibc

// A fuzzer of the target that `RINGTAP_FUZZ_TARGET` names; without it the targets are printed. The arguments are
// libFuzzer's, which starts the program anew by them. See `Tools/fuzz/run`.

/// libFuzzer's main function.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
  _ body: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private func chosenTarget() -> FuzzTarget {
  guard let name = getenv("RINGTAP_FUZZ_TARGET").map({ String(cString: $0) }) else {
    for target in FuzzTarget.allCases { print(target.rawValue) }
    exit(0)
  }
  guard let target = FuzzTarget(rawValue: name) else {
    print("no target \(name)")
    exit(2)
  }
  return target
}

let target = chosenTarget()
var count = CommandLine.argc
var arguments = CommandLine.unsafeArgv
exit(
  runDriver(&count, &arguments) { octets, count in
    target.run(UnsafeBufferPointer(start: octets, count: count).span)
    return 0
  })
