// Weights of 1x1 convolutions, added up and packed for Strassen's algorithm.
//
//   out[group][B11, B21, T2, T3, -T4, T1, B22][channel of a half][lane],   lane = output channel of half a group
// with T1 = B12 - B11, T2 = B22 - T1, T3 = B22 - B12, T4 = T2 - B21 of the quarters B: the first or second half of the
// channels by the first or second nb blocks of a group. A ticket is a run of channels of one group.
//
// inp, out             floats
// pitch_o, pitch_c     floats from one output channel, channel of the weights to the next
// half_channels        channels of a half;  nb: blocks of 16 output channels of half a group
// runs, ticket_channels   tickets of a group, channels of a ticket
//
// Computed in double, where there is one, and rounded once: |error| <= 2^-24 |T|.
#include "tile.clh"

#ifdef cl_khr_fp64
  #define WIDE16 double16
  #define WIDEN convert_double16
#else
  #define WIDE16 float16
  #define WIDEN convert_float16
#endif

static void pack_strassen(__global const pack_strassen_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int group = ticket / d->runs, first = (ticket - group * d->runs) * d->ticket_channels;
  const int channels = d->half_channels, last = min(first + d->ticket_channels, channels), row = d->nb * 16;
  const long product = (long)channels * row;
  for (int c = first; c < last; c++)
    for (int j = 0; j < d->nb; j++) {
      WIDE16 b[4];
      for (int quarter = 0; quarter < 4; quarter++) {
        const long output = (long)(2 * group + quarter % 2) * row + j * 16;
        __global const float* from = AT(const float, banks, d->inp) + output * d->pitch_o;
        from += (c + quarter / 2 * channels) * d->pitch_c;
        float lanes[16];
        for (int l = 0; l < 16; l++) lanes[l] = from[l * d->pitch_o];
        b[quarter] = WIDEN(vload16(0, lanes));
      }
      const WIDE16 t1 = b[1] - b[0], t2 = b[3] - t1;
      __global float* to = AT(float, banks, d->out) + 7 * product * group + (long)c * row + j * 16;
      STORE16(to, convert_float16(b[0]));
      STORE16(to + product, convert_float16(b[2]));
      STORE16(to + 2 * product, convert_float16(t2));
      STORE16(to + 3 * product, convert_float16(b[3] - b[1]));
      STORE16(to + 4 * product, convert_float16(b[2] - t2));
      STORE16(to + 5 * product, convert_float16(t1));
      STORE16(to + 6 * product, convert_float16(b[3]));
    }
}
