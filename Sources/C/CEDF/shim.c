#include "CEDF.h"

#include <stdlib.h>

int64_t ringtap_edf_finish(int file, const char *path) {
  if (edfclose_file(file) != 0) return -1;
  // More than 100 KiB: not on the stack.
  struct edf_hdr_struct *head = malloc(sizeof *head);
  if (head == NULL) return -1;
  int64_t records = -1;
  if (edfopen_file_readonly(path, head, EDFLIB_DO_NOT_READ_ANNOTATIONS) == 0) {
    records = head->datarecords_in_file;
    edfclose_file(head->handle);
  }
  free(head);
  return records;
}
