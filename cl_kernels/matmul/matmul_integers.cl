// Product of matrices of integers of 32 or 64 bits, c = a b + bias, in batches, wrapping around; the result is row-major with
// columns side by side.
//
// Pieces, tickets and fields as in matmul_doubles.cl, in elements; itemsize: bytes of one, 4 or 8.
//
// scratch: depth * 16 elements. Exact modulo 2^(bits of an element), whatever their sign.
#include "tile.clh"

#define ROWS 6
#define PIECE 48

#define SUMS(i) const int r##i = min(i, last) * row;
#define STEP(T, i) s##i += (T##16)(a[r##i]) * v;
#define KEEP(i) vstore16(s##i, i, to);

// six_rows_T: the sums of ROWS rows, the last of them again for those behind it, to [ROWS][16];  integer_piece_T: piece p.
#define INTEGER_PRODUCT(T) \
  NOINLINE static void six_rows_##T(__global const T* restrict a, const int row, const int last, const int step, \
                                    __global const T* restrict b, const int b_row, const int depth, T* restrict to) { \
    SUMS(0) SUMS(1) SUMS(2) SUMS(3) SUMS(4) SUMS(5) \
    T##16 s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0; \
    for (int k = 0; k < depth; k++, a += step, b += b_row) { \
      const T##16 v = vload16(0, b); \
      STEP(T, 0) STEP(T, 1) STEP(T, 2) STEP(T, 3) STEP(T, 4) STEP(T, 5) \
    } \
    KEEP(0) KEEP(1) KEEP(2) KEEP(3) KEEP(4) KEEP(5) \
  } \
  NOINLINE static void single_row_##T(__global const T* restrict a, const int step, __global const T* restrict b, \
                                      const int b_row, const int depth, T* restrict to) { \
    T##16 s0 = 0; \
    for (int k = 0; k < depth; k++) s0 += (T##16)(a[(long)k * step]) * vload16(0, b + (long)k * b_row); \
    KEEP(0) \
  } \
  NOINLINE static void integer_piece_##T(__global const matmul_integers_desc* d, __global char** banks, \
                                         __global char* scratch, const int p) { \
    T sums[ROWS * 16]; \
    const int g = p % d->groups, span = p / d->groups % d->spans, n = p / d->groups / d->spans, depth = d->depth; \
    const long outer = n / d->inner, inner = n % d->inner; \
    const int columns = min(16, d->columns - g * 16), first = span * PIECE, last = min(first + PIECE, d->rows); \
    __global const T* a = AT(const T, banks, d->a) + outer * d->a_outer + inner * d->a_batch; \
    __global const T* b = AT(const T, banks, d->b) + outer * d->b_outer + inner * d->b_batch + (long)g * 16 * d->b_column; \
    __global const T* bias = \
        AT(const T, banks, d->bias) + outer * d->bias_outer + inner * d->bias_batch + (long)g * 16 * d->bias_column; \
    __global T* c = AT(T, banks, d->c) + outer * d->c_outer + inner * d->c_batch + g * 16; \
    int b_row = d->b_row; \
    if (columns < 16 || d->b_column != 1 || last - first > 2 * ROWS) { \
      __global T* to = (__global T*)scratch; \
      for (int k = 0; k < depth; k++) \
        for (int j = 0; j < 16; j++) to[k * 16 + j] = j < columns ? b[(long)k * d->b_row + (long)j * d->b_column] : 0; \
      b = to; \
      b_row = 16; \
    } \
    for (int y = first; y < last;) { \
      const int count = last - y < 3 ? 1 : min(ROWS, last - y); \
      __global const T* from = a + (long)y * d->a_row; \
      if (count == 1) single_row_##T(from, d->a_step, b, b_row, depth, sums); \
      else six_rows_##T(from, d->a_row, count - 1, d->a_step, b, b_row, depth, sums); \
      for (int i = 0; i < count; i++, y++) { \
        __global T* to = c + (long)y * d->c_row; \
        if (d->biased) \
          for (int j = 0; j < columns; j++) to[j] = sums[i * 16 + j] + bias[(long)y * d->bias_row + j * d->bias_column]; \
        else \
          for (int j = 0; j < columns; j++) to[j] = sums[i * 16 + j]; \
      } \
    } \
  }
INTEGER_PRODUCT(uint)
INTEGER_PRODUCT(ulong)
#undef INTEGER_PRODUCT
#undef SUMS
#undef STEP
#undef KEEP

static void matmul_integers(__global const matmul_integers_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int end = min((ticket + 1) * d->ticket_pieces, d->pieces);
  for (int p = ticket * d->ticket_pieces; p < end; p++) {
    if (d->itemsize == 8) integer_piece_ulong(d, banks, scratch, p);
    else integer_piece_uint(d, banks, scratch, p);
  }
}
#undef ROWS
#undef PIECE
