// Sums of the input of a 1x1 convolution by Strassen's algorithm: of two neighbouring rows and two halves of the channels.
//
//   sums[n][chunk][S2, S3, S1, S4][run][pixel][16], or [A11, A12, S2, S3, A22, S1, S4] with a stride
// with S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21, S4 = A12 - S2, where A11, A12 are the halves of the upper row's
// channels and A21, A22 those of the lower one's. A chunk is `wide` pixels of a pair of rows, row_chunks of them side by
// side. A ticket is a run of chunks of all images.
//
// inp, in_n, in_c, in_y    the input; floats from one image, channel block, row to the next
// stride                   of the convolution
// sums                     the result
// runs                     channel blocks of a half
// wide, row_chunks         pixels of a chunk, chunks of a pair of rows
// image_chunks, chunks     of an image, of all
// ticket_chunks            of a ticket
//
// Error: a rounding each for S1 and S3, two for S2, three for S4.
#include "tile.clh"

static void strassen_sums_fsv16(__global const strassen_sums_fsv16_desc* d, __global char** banks, __global char* scratch,
                                const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_chunks, d->chunks), runs = d->runs, wide = d->wide, stride = d->stride;
  const int below = stride * d->in_y, step = stride * 16;
  const long half_c = (long)runs * d->in_c, product = (long)runs * wide * 16;
  for (int chunk = ticket * d->ticket_chunks; chunk < last; chunk++) {
    const int n = chunk / d->image_chunks, within = chunk - n * d->image_chunks;
    const int pair = within / d->row_chunks, part = within - pair * d->row_chunks;
    __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + 2L * pair * below + part * wide * step;
    __global float* to = AT(float, banks, d->sums) + (stride > 1 ? 7 : 4) * product * chunk;
    for (int run = 0; run < runs; run++, in += d->in_c)
      for (int i = 0; i < wide; i++, to += 16) {
        __global const float *upper = in + i * step, *lower = upper + below;
        const float16 a11 = LOAD16(upper), a12 = LOAD16(upper + half_c), a21 = LOAD16(lower), a22 = LOAD16(lower + half_c);
        const float16 s1 = a21 + a22, s2 = s1 - a11;
        __global float* sums = to;
        if (stride > 1) {
          STORE16(to, a11);
          STORE16(to + product, a12);
          STORE16(to + 4 * product, a22);
          sums += 2 * product;
        }
        STORE16(sums, s2);
        STORE16(sums + product, a11 - a21);
        sums += (stride > 1 ? 3 : 2) * product;
        STORE16(sums, s1);
        STORE16(sums + product, a12 - s2);
      }
  }
}
