// Lists nearby advertisers, for ten seconds or as long as you say.
//
// WhoIsThere [SECONDS] [RADIO]     such as 3 virtual:ring,devices=5
import RingTap

await runProgram {
  let arguments = CommandLine.arguments.dropFirst()
  let seconds = arguments.first.flatMap { Double($0) } ?? 10
  let radio = try await Radio.open(arguments.dropFirst().first)
  for try await advertiser in radio.advertisers(seenWithin: .seconds(seconds)) {
    print(advertiser.address, advertiser.rssi.map { "\($0) dBm" } ?? "-", advertiser.name ?? "-")
  }
}
