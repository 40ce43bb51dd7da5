// Describes where the parts of a person's access come from, as JSON Schema, for the lists of Admins and the person's own page.
const strings = { type: 'array', items: { type: 'string' } } as const

export const accessSourceProperties = {
  assigned: {
    type: 'object',
    description: 'What an Admin assigned; profiles and areas of the person are these and the granted ones',
    required: ['profiles', 'areas', 'areaPrincipal'],
    properties: { profiles: strings, areas: strings, areaPrincipal: { type: 'string' } }
  },
  granted: {
    type: 'array',
    description: 'What the route files grant to groups of the person',
    items: {
      type: 'object',
      required: ['group', 'profiles', 'areas'],
      properties: { group: { type: 'string' }, profiles: strings, areas: strings }
    }
  },
  groupsUnreadable: {
    type: 'boolean',
    description: 'The groups could not be read: what they grant stays for two rechecks, or a day, then it lapses'
  },
  groupsCutOff: { type: 'boolean', description: 'The provider left groups out of its list: nothing is granted' }
} as const
