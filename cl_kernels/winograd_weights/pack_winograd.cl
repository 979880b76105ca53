// Weights of 3x3 convolutions transformed for Winograd's F(4x4, 3x3), for stride 2 for F(2x2, 3x3): U = G g G^T of each
// output and input channel.
//
//   out[group][position][channel][lane] = (G g G^T)[position / s][position % s],   g = in[group * 16 nb + lane][channel]
//
// with s = 6, or 5 for stride 2,
// and 0 for lanes and channels that do not exist; channels are filled up to a multiple of 16. A ticket is a run of channels
// of one group.
//
// inp, out                 floats
// pitch_o, pitch_c, pitch_y, pitch_x   floats from one output channel, channel, row, column of the weights to the next
// outputs, channels        that exist;  padded: channels of the result
// vectors                  16-lane vectors of a group, nb;  stride: of the convolution, 1 or 2
// runs, ticket_channels    tickets of a group, channels of a ticket
//
// Error: that of winograd_weights.clh.
#include "tile.clh"
#include "winograd_weights.clh"

#ifdef cl_khr_fp64
  #define WIDE16 double16
  #define WIDEN convert_double16
#else
  #define WIDE16 float16
  #define WIDEN convert_float16
#endif

// Store at `to` what G, of `side` rows, makes of the 3x3 vectors w; positions are `position` floats apart.
#define DOWN(i) t[i][k]
#define ALONG(i) u[i]
#define TRANSFORM(side, G, w, to, position) \
  { \
    WIDE16 t[side][3]; \
    for (int k = 0; k < 3; k++) G(WIDE16, w[k], w[3 + k], w[6 + k], DOWN) \
    for (int i = 0; i < side; i++) { \
      WIDE16 u[side]; \
      G(WIDE16, t[i][0], t[i][1], t[i][2], ALONG) \
      for (int j = 0; j < side; j++) STORE16(to + (side * i + j) * position, convert_float16(u[j])); \
    } \
  }

static void pack_winograd(__global const pack_winograd_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int group = ticket / d->runs, first = (ticket - group * d->runs) * d->ticket_channels;
  const int last = min(first + d->ticket_channels, d->padded), row = d->vectors * 16;
  const long position = (long)d->padded * row, positions = d->stride == 1 ? 36 : 25;
  for (int c = first; c < last; c++) {
    for (int b = 0; b < d->vectors; b++) {
      __global float* to = AT(float, banks, d->out) + positions * group * position + (long)c * row + b * 16;
      const int output = group * row + b * 16, present = c < d->channels ? clamp(d->outputs - output, 0, 16) : 0;
      __global const float* from = AT(const float, banks, d->inp) + output * d->pitch_o + c * d->pitch_c;
      float g[9][16];
      for (int l = 0; l < 16; l++)
        for (int k = 0; k < 9; k++)
          g[k][l] = l < present ? from[l * d->pitch_o + k / 3 * d->pitch_y + k % 3 * d->pitch_x] : 0.0f;
      WIDE16 w[9];
      for (int k = 0; k < 9; k++) w[k] = WIDEN(vload16(0, g[k]));
      if (d->stride == 1)
        TRANSFORM(6, WINOGRAD_G, w, to, position)
      else
        TRANSFORM(5, WINOGRAD_STRIDED_G, w, to, position)
    }
  }
}
