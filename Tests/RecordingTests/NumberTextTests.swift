import Foundation
import Recording
import Testing

@Suite struct NumberTextTests {
  /// As C's printf: ties of the binary value round to the even digit.
  @Test(
    arguments: [
      (0.25, 1, "0.2"), (0.35, 1, "0.3"), (2.5, 0, "2"), (-1.005, 2, "-1.00"),
      (1e15, 1, "1000000000000000.0"),
    ] as [(Double, Int, String)])
  func rounds(_ number: Double, _ decimals: Int, _ text: String) {
    #expect(NumberText.fixed(number, decimals) == text)
    #expect(String(format: "%.\(decimals)f", number) == text)
  }

  @Test(
    arguments: [(24.96, 4, "24.96"), (12_345, 4, "1.234e+04"), (3, 4, "3")] as [(Double, Int, String)])
  func keepsDigits(_ number: Double, _ digits: Int, _ text: String) {
    #expect(NumberText.significant(number, digits) == text)
  }

  @Test(arguments: [(7, 2, "07"), (123, 2, "123"), (-7, 3, "-07")] as [(Int, Int, String)])
  func pads(_ number: Int, _ digits: Int, _ text: String) {
    #expect(NumberText.padded(number, digits) == text)
  }
}
