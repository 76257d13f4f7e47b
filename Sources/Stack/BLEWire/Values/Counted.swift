#if !NO_ALLOCATIONS
  /// Returns a number followed by its noun: `1 row`, `2 rows`.
  ///
  /// - Parameters:
  ///   - number: the number.
  ///   - singular: the words after 1.
  ///   - plural: the words after any other number; by default `singular` with an s.
  package func counted(
    _ number: some BinaryInteger, _ singular: String, _ plural: String? = nil
  ) -> String {
    "\(number) \(number == 1 ? singular : plural ?? singular + "s")"
  }
#endif
