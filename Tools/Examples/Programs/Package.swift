// swift-tools-version: 6.2
import PackageDescription

// Programs as users of ringtap write them: each is one file and imports the façade.

func program(_ name: String) -> Target {
  .executableTarget(name: name, dependencies: [.product(name: "RingTap", package: "ringtap")])
}

let package = Package(
  name: "programs",
  dependencies: [.package(name: "ringtap", path: "../../..")],
  targets: [
    program("RawStream"),
    program("WhoIsThere"),
    program("HeartRate"),
    program("AnyDevice"),
    program("HotPath"),
    program("Record"),
    program("ReadLog"),
    program("OwnSensor"),
    program("Pulse"),
  ]
)
