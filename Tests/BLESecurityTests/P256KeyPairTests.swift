import BLESecurity
import BLEStack
import BLEWire
import TestKit
import Testing

/// Sample data of Core 5.4, Vol 2, Part G, 7.1.2, most significant byte first.
@Suite struct P256KeyPairTests {
  struct Sample: Sendable {
    let privateA: String
    let privateB: String
    let publicA: P256PublicKey
    let publicB: P256PublicKey
    let secret: P256Coordinate
  }

  static let samples = [
    Sample(
      privateA: "3f49f6d4a3c55f3874c9b3e3d2103f504aff607beb40b7995899b8a6cd3c1abd",
      privateB: "55188b3d32f6bb9a900afcfbeed4e72a59cb9ac2f19d7cfb6b4fdd49f47fc5fd",
      publicA: .debug,
      publicB: P256PublicKey(
        x: P256Coordinate(high: 0x1ea1f0f01faf1d9609592284f19e4c00, low: 0x47b58afd8615a69f559077b22faaa190),
        y: P256Coordinate(high: 0x4c55f33e429dad377356703a9ab85160, low: 0x472d1130e28e36765f89aff915b1214a)),
      secret: P256Coordinate(
        high: 0xec0234a357c8ad05341010a60a397d9b, low: 0x99796b13b4f866f1868d34f373bfa698)),
    Sample(
      privateA: "06a516693c9aa31a6084545d0c5db641b48572b97203ddffb7ac73f7d0457663",
      privateB: "529aa0670d72cd6497502ed473502b037e8803b5c60829a5a3caa219505530ba",
      publicA: P256PublicKey(
        x: P256Coordinate(high: 0x2c31a47b5779809ef44cb5eaaf5c3e43, low: 0xd5f8faad4a8794cb987e9b03745c78dd),
        y: P256Coordinate(high: 0x919512183898dfbecd52e2408e43871f, low: 0xd021109117bd3ed4eaf8437743715d4f)),
      publicB: P256PublicKey(
        x: P256Coordinate(high: 0xf465e43ff23d3f1b9dc7dfc04da87581, low: 0x84dbc966204796eccf0d6cf5e16500cc),
        y: P256Coordinate(high: 0x0201d048bcbbd899eeefc424164e33c2, low: 0x01c2b010ca6b4d43a8a155cad8ecb279)),
      secret: P256Coordinate(
        high: 0xab85843a2f6d883f62e5684b38e30733, low: 0x5fe6e1945ecd19604105c6f23221eb69)),
  ]

  @Test(arguments: samples) func agrees(_ sample: Sample) throws {
    let a = try #require(try P256KeyPair(privateKey: octetsOf(sample.privateA)))
    let b = try #require(try P256KeyPair(privateKey: octetsOf(sample.privateB)))
    #expect(a.publicKey == sample.publicA)
    #expect(b.publicKey == sample.publicB)
    #expect(a.sharedSecret(with: b.publicKey) == sample.secret)
    #expect(b.sharedSecret(with: a.publicKey) == sample.secret)
  }

  /// CVE-2018-5383: a point that is not on the curve reveals our private key.
  @Test func refusesWhatIsNoPoint() throws {
    let key = try P256KeyPair.maker()()
    let point = Self.samples[1].publicA
    let zero = P256Coordinate(high: 0, low: 0)
    for y in [zero, point.x, P256Coordinate(high: point.y.high, low: point.y.low ^ 1)] {
      #expect(key.sharedSecret(with: P256PublicKey(x: point.x, y: y)) == nil)
    }
    #expect(key.sharedSecret(with: P256PublicKey(x: zero, y: zero)) == nil)
  }

  @Test func makesANewOneEachTime() throws {
    let make = try P256KeyPair.maker()
    let keys = (make(), make())
    #expect(keys.0.publicKey != keys.1.publicKey)
    let secret = keys.0.sharedSecret(with: keys.1.publicKey)
    #expect(secret != nil)
    #expect(secret == keys.1.sharedSecret(with: keys.0.publicKey))
  }

  /// From 1 to the order less 1: FIPS 186-4, D.1.2.3. The last one's public key is the base point's negative.
  @Test func takesTheNumbersOfTheCurveOnly() throws {
    let zero = String(repeating: "00", count: 32)
    let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"
    for number in [zero, order, String(repeating: "ff", count: 32), "01"] {
      #expect(try P256KeyPair(privateKey: octetsOf(number)) == nil)
    }
    let one = try #require(try P256KeyPair(privateKey: octetsOf(zero.dropLast(2) + "01"))).publicKey
    let last = try #require(try P256KeyPair(privateKey: octetsOf(order.dropLast(2) + "50"))).publicKey
    let x = P256Coordinate(high: 0x6b17d1f2e12c4247f8bce6e563a440f2, low: 0x77037d812deb33a0f4a13945d898c296)
    #expect(one.x == x && last.x == x)
    #expect(
      one.y
        == P256Coordinate(high: 0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e16, low: 0x2bce33576b315ececbb6406837bf51f5))
    #expect(
      last.y
        == P256Coordinate(high: 0xb01cbd1c01e58065711814b583f061e9, low: 0xd431cca994cea1313449bf97c840ae0a))
  }
}
