// swift-tools-version: 6.2
import PackageDescription

// A separate package, so that users of ringtap do not resolve or build dependencies for benchmarks.
let package = Package(
  name: "Benchmarks",
  dependencies: [.package(name: "ringtap", path: "../..")],
  targets: [
    .executableTarget(
      name: "micro",
      dependencies: [
        .product(name: "BLEEmulation", package: "ringtap"),
        .product(name: "BLEPacketLog", package: "ringtap"),
        .product(name: "ColmiRing", package: "ringtap"),
        .product(name: "Physiology", package: "ringtap"),
      ]),
    .executableTarget(
      name: "minimal",
      dependencies: [
        .product(name: "BLEHost", package: "ringtap"), .product(name: "Recording", package: "ringtap"),
      ]),
  ])
