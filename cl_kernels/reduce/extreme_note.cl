// A note of an extreme: an int whose order is that of the floats it stands for (post_tile.clh). One ticket.
//
// note  the int
// sign  0: write the least one;  1: read a maximum into `out`;  -1: read a minimum, the maximum of the negated numbers
#include "post_tile.clh"

static void extreme_note(__global const extreme_note_desc* d, __global char** banks, __global char* scratch, const int ticket,
                         __global const post_step* post, const int posts) {
  __global int* note = AT(int, banks, d->note);
  if (d->sign)
    *AT(float, banks, d->out) = as_float(ordered_int(*note)) * (float)d->sign;
  else
    *note = ordered_int(as_int(-INFINITY));
}
