// Rows of floats as bfloat16, with zeros behind the last column. A ticket is a run of rows.
//
// x, x_batch, x_row   floats from one batch element and row to the next; columns are side by side
// out                 [rows in all][padded], padded a multiple of 32
// batch_rows, rows    rows of a batch element, and in all
// depth, padded       columns, and with those of zeros
// ticket_rows         rows of a ticket
//
// Rounds to the nearest: 2^-8 of a number at most, all of one below 2^-126.
#include "bfloat_pairs.clh"
#include "rows.clh"

typedef ushort16 __attribute__((aligned(2))) ushorts;

static void bfloat_rows(__global const bfloat_rows_desc* d, __global char** banks, __global char* scratch, const int ticket,
                        __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows), depth = d->depth, padded = d->padded;
  for (int y = ticket * d->ticket_rows; y < last; y++) {
    __global const float* x =
        AT(const float, banks, d->x) + (y / d->batch_rows) * d->x_batch + (long)(y % d->batch_rows) * d->x_row;
    __global ushort* to = AT(ushort, banks, d->out) + (long)y * padded;
    for (int i = 0; i * 16 < padded; i++)
      *(__global ushorts*)(to + i * 16) = bfloats_of(i * 16 < depth ? load_row(x, i, depth, 0.0f) : (float16)(0.0f));
  }
}
